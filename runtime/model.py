"""A callable model: its signature, and a program for each set of shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from tessella.runtime import outputs
from tessella.runtime.bound import BoundModel
from tessella.runtime.elements import (
    as_own,
    converted,
    dtype_name,
    dtype_named,
    element_of,
    widened,
)
from tessella.runtime.explain_table import html_table
from tessella.runtime.profile import Activity, Profile
from tessella.runtime.profiler import ProfiledProgram, profile, traced
from tessella.runtime.program import Program
from tessella.runtime.rest import Runner
from tessella.runtime.signature import ValueInfo, fits
from tessella.runtime.sparse import check_dense
from tessella.runtime.tensors import as_numpy
from tessella.runtime.values import as_public
from tessella.support.errors import InputError
from tessella.support.memory import give_back
from tessella.support.tables import remembered

Array = npt.NDArray[Any]

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of the inputs, in order."""

MAX_KNOWN = 1024
"""Limit on the combinations of input shapes that a model caches: those that fit the signature, with
the programs that serve them."""

_BY_NAME = dict, Mapping
"""The types of an argument that gives the inputs by name. The usual type is first, as tests against
abstract classes are slow."""

_ORDERS = {True: "", False: " in another byte order"}

_PASS = {"string": "pass an array of str"}
"""The hints of errors for arrays of the wrong element type, by the expected type. Only types
without a NumPy dtype of the same name are listed."""

Out = Sequence[Array | None]
"""The caller's arrays for the outputs, in order; None for an output to allocate. Empty if the
caller gives none."""


@dataclass(frozen=True)
class _Input:
    """The specification of a tensor input."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]

    def convert(self, value: npt.ArrayLike) -> Array:
        """Convert a value to a contiguous array of the element type. Raises InputError if it is not
        an array, or has another element type."""
        dtype = dtype_name(self.dtype)
        array = _asarray(value, self.name, f"{dtype} {self.shape}")
        is_python = isinstance(value, list | tuple | int | float | complex)
        if is_python and not isinstance(value, np.generic):
            array = _typed(array, self.dtype)
        if array.dtype != self.dtype:
            raise InputError(
                f"input {self.name!r} has the wrong element type",
                expected=dtype,
                found=dtype_name(array.dtype) + _ORDERS[array.dtype.isnative],
                hint=_PASS.get(dtype, f"pass np.asarray(x, {dtype!r})"),
            )
        return np.require(array, requirements=["C", "A"])

    def shape_of(self, array: Array) -> tuple[int, ...]:
        """Return the shape of a converted value."""
        return array.shape

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise InputError for a shape that does not fit."""
        if not fits(shape, self.shape):
            raise InputError(
                f"input {self.name!r} has the wrong shape",
                expected=str(self.shape),
                found=str(shape),
            )


@dataclass(frozen=True)
class _Passed:
    """The specification of an input that is not a tensor."""

    name: str
    kind: str
    dtype: ClassVar = object()
    """A value that equals no array's dtype, so that each input is converted. NumPy takes None for
    float64."""

    def convert(self, value: Any) -> Any:
        """Convert the elements of a list, or the value of an optional, to contiguous arrays; None
        stays None, and dictionaries are copied. Raises InputError for a value of another type."""
        if isinstance(value, list | tuple):
            items = enumerate(cast(Sequence[Any], value))
            return [self._item(item, f"{self.name}[{i}]") for i, item in items]
        if self.kind == "map":
            return self._dictionary(value)
        if self.kind == "sequence":
            raise InputError(
                f"input {self.name!r} is not a sequence",
                expected="a list of arrays",
                found=type(value).__name__,
            )
        return None if value is None else self._array(value, self.name)

    def _item(self, value: Any, where: str) -> Any:
        is_map = isinstance(value, dict)
        return self._dictionary(cast(object, value)) if is_map else self._array(value, where)

    def _dictionary(self, value: object) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise InputError(
                f"input {self.name!r} is not a map",
                expected="a dictionary",
                found=type(value).__name__,
            )
        return {**cast(dict[Any, Any], value)}

    def shape_of(self, value: object) -> tuple[int, ...]:
        """Return an empty shape, as the value is not a tensor."""
        return ()

    def check(self, shape: tuple[int, ...]) -> None:
        """Accept any shape, as the value is not a tensor."""

    def _array(self, value: npt.ArrayLike, name: str) -> Array:
        array = _asarray(value, name)
        if element_of(array.dtype) is None:
            raise InputError(f"input {name!r} is not an array", found=array.dtype.name)
        return np.require(array, requirements=["C", "A"])


def _asarray(value: npt.ArrayLike, name: str, expected: str | None = None) -> Array:
    if not isinstance(value, np.ndarray):
        check_dense(value, f"input {name!r}")
    try:
        return as_own(np.asarray(as_numpy(value)))
    except (ValueError, TypeError, RuntimeError) as error:  # PyTorch raises any of them
        raise InputError(f"input {name!r} is not an array: {error}", expected=expected) from error


def _typed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert an array of Python numbers, which have no element type of their own, to a dtype that
    can represent them.

    The array is returned unchanged if the dtype cannot represent its numbers: floats as integers,
    or integers that are too large.
    """
    element = element_of(dtype)
    if element is None:
        return array
    may_round = element.is_float or element.is_complex or not array.size
    if not (array.dtype.kind in "bi" or may_round):
        return array
    numbers = "biufc" if element.is_complex else "biuf"
    if array.dtype.kind not in numbers or (element.kind == "string" and array.size):
        return array
    result = converted(array, dtype)
    return result if may_round or np.array_equal(widened(result), array) else array


def _input(info: ValueInfo) -> _Input | _Passed:
    if not info.is_tensor:
        return _Passed(info.name, info.dtype)
    return _Input(info.name, dtype_named(info.dtype), info.shape)


def _is_plain(info: ValueInfo) -> bool:
    """Return whether an output is known to be an array whose elements have a type of NumPy's
    own."""
    return info.is_known and info.is_tensor and dtype_named(info.dtype).names is None


class CallableModel(ABC):
    """A callable model: a signature, with dimensions that may be symbolic, and programs for
    shapes."""

    def __init__(
        self,
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
        threads: int,
        *,
        is_inner: bool = False,
    ) -> None:
        """Create a model. ``is_inner`` marks the model of a subprogram: nobody modifies its
        results."""
        self.inputs: tuple[ValueInfo, ...] = tuple(inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(outputs)
        self.threads = threads
        """The number of threads that run the model."""
        self._is_inner = is_inner
        self._inputs = [_input(info) for info in self.inputs]
        self._gives_plain = is_inner or all(map(_is_plain, self.outputs))
        """True if callers get the arrays that programs return, without a conversion."""
        self._passed = frozenset(i for i, info in enumerate(self.inputs) if not info.is_tensor)
        """Indices of the inputs that are not arrays. Steps pass them on; no program takes them."""
        self._names = dict.fromkeys(info.name for info in self.inputs).keys()
        self._output_names = [info.name for info in self.outputs]
        self._symbolic = any(isinstance(d, str) for info in self.inputs for d in info.shape)
        self._known_shapes: dict[Shapes, None] = {}
        """Combinations of input shapes that are known to fit the signature."""

    @property
    @abstractmethod
    def target(self) -> str:
        """The name of the machine that the running code was compiled for."""

    @abstractmethod
    def _known_programs(self) -> Sequence[Program]:
        """Return the existing programs, subprograms included."""

    @abstractmethod
    def _results(self, shapes: Shapes, arrays: Sequence[Array], out: Out) -> list[Array]:
        """Return all outputs for inputs that fit the signature and have these shapes.

        Native code writes into the arrays of ``out`` where it can.
        """

    @abstractmethod
    def _parts(self) -> Iterator[ProfiledProgram]:
        """Yield the existing programs, subprograms included, each with the work of its kernels."""

    def _repr_html_(self) -> str:
        """Return the signature as a table, which notebooks show."""
        rows = [
            (kind, info.name, info.dtype, " x ".join(map(str, info.shape)))
            for kind, infos in (("input", self.inputs), ("output", self.outputs))
            for info in infos
        ]
        plural = "s" * (self.threads != 1)
        title = f"a model for {self.target}, on {self.threads} thread{plural}"
        return f"<p>{escape(title)}</p>{html_table(('', 'name', 'element', 'shape'), rows)}"

    def profile(
        self,
        inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike] | Array,
        *,
        runs: int | None = None,
    ) -> Profile:
        """Measure runs, kernel by kernel.

        The runs use ``threads`` threads, as all do. Calls that other threads make at the same time
        are not told apart, and take part in the figures.

        Parameters
        ----------
        inputs : dict of array_like, sequence of array_like, or ndarray
            The inputs by name, or in order.
        runs : int, optional
            The number of runs that count; by default, as many as fit into half a second, 10 at
            least.

        Returns
        -------
        Profile
            Medians of the times, in seconds.

        Raises
        ------
        InputError
            If names, shapes or element types of inputs are wrong.
        OptionError
            If there are no runs.
        ResourceError
            If the system has no ``clock_gettime``.
        """
        if not isinstance(inputs, Mapping):
            listed = [inputs] if isinstance(inputs, np.ndarray) else inputs
            if len(listed) != len(self.inputs):
                raise InputError(
                    "wrong number of inputs",
                    expected=f"{len(self.inputs)}: {', '.join(self._names)}",
                    found=str(len(listed)),
                )
            inputs = dict(zip(self._names, listed, strict=True))
        return profile(partial(self.run, None, inputs), self._parts, runs)

    def run_traced(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, npt.ArrayLike],
        *,
        out: Out | None = None,
    ) -> tuple[list[Array], Sequence[Activity]]:
        """Run the model, and record what each thread does.

        Programs that this run compiles are not recorded. No other recorded run may begin meanwhile.

        Parameters
        ----------
        output_names : sequence of str or None
            The names of the outputs; None for all.
        feeds : dict of array_like
            The inputs by name.
        out : sequence of ndarray or None, optional
            Arrays for the outputs, as ``run`` takes them.

        Returns
        -------
        outputs : list of ndarray
            The outputs, as ``run`` returns them.
        spans : sequence of Span
            Kernels and waiting of each thread, in seconds since the run began.

        Raises
        ------
        InputError
            If names, shapes or element types are wrong.
        """
        return traced(partial(self.run, output_names, feeds, out=out), self._parts())

    @property
    def weight_bytes(self) -> int:
        """Bytes in memory of the weights of the existing programs."""
        arrays = (array for made in self._known_programs() for array in made.all_weights())
        return sum({id(array): array.nbytes for array in arrays}.values())

    def release(self) -> None:
        """Free memory that later calls would reuse.

        This memory is workspaces, and arrays of earlier outputs that nobody refers to.
        The programs and their weights stay; the next call allocates memory again. Other threads may
        be calling the model: the memory that they use is freed when their calls end.
        """
        for program in self._known_programs():
            program.release()
        give_back()

    def run(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, npt.ArrayLike],
        run_options: object = None,
        *,
        out: Out | None = None,
    ) -> list[Array]:
        """Run the model on inputs by name.

        Parameters
        ----------
        output_names : sequence of str or None
            The names of the outputs to return; None for all.
        feeds : dict of array_like
            The inputs by name. Lists of numbers are converted where that changes no number.
        run_options : object, optional
            Options of ONNX Runtime, which are ignored.
        out : sequence of ndarray or None, optional
            Arrays for these outputs, None for one that is to be made. They are C-contiguous, have
            the element types and shapes of the outputs, and share no memory with each other or with
            inputs. Native code writes into them, without a copy.

        Returns
        -------
        list of ndarray
            The outputs, in the order of their names.

        Raises
        ------
        InputError
            If names, shapes or element types are wrong, or an array of ``out`` does not fit.
        ExecutionError
            If the values cannot be computed with, such as an index out of range.
        CompileTimeoutError
            If the call has to compile, and that takes longer than ``timeout``.
        """
        if not isinstance(feeds, _BY_NAME):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                "inputs must be given by name",
                expected="a dictionary of arrays",
                found=type(feeds).__name__,
                hint="model(x) takes them in order",
            )
        if feeds.keys() != self._names:
            raise self._wrong_names(feeds)
        values = [feeds[name] for name in self._names]
        if output_names is None and out is None:
            return self.run_in_order(values)
        chosen = range(len(self.outputs))
        if output_names is not None:
            chosen = self._positions(output_names)
        if out is None:
            results = self.run_in_order(values)
            return [results[i] for i in chosen]
        shapes, arrays = self._checked(values)
        given = outputs.checked([self.outputs[i] for i in chosen], out, arrays)
        pairs = [*zip(chosen, given, strict=True)]
        memory = {i: each.memory for i, each in pairs if each is not None}
        results = self._results(shapes, arrays, [*map(memory.get, range(len(self.outputs)))])
        return [outputs.put(results[i], each) for i, each in pairs]

    def run_in_order(self, values: Sequence[npt.ArrayLike]) -> list[Array]:
        """Run the model on inputs in order.

        Parameters
        ----------
        values : sequence of array_like
            All inputs.

        Returns
        -------
        list of ndarray
            All outputs.

        Raises
        ------
        InputError
            If shapes or element types are wrong.
        """
        shapes, arrays = self._checked(values)
        results = self._results(shapes, arrays, ())
        return results if self._gives_plain else [*map(as_public, results)]

    def __call__(
        self,
        /,
        *arrays: npt.ArrayLike,
        out: Array | Out | None = None,
        **named: npt.ArrayLike,
    ) -> Any:
        """Run the model on inputs in order; the last inputs may be given by name instead.

        Parameters
        ----------
        *arrays : array_like
            The first inputs.
        out : ndarray or sequence of ndarray or None, optional
            An array for the output, or one for each output, as ``run`` takes them. If the model
            has an input named ``out``, the argument is that input.
        **named : array_like
            The other inputs by name.

        Returns
        -------
        ndarray or tuple of ndarray
            The output, or a tuple where there are several outputs.

        Raises
        ------
        InputError
            If names, shapes, element types or the number of inputs are wrong.
        """
        if out is None and not named and len(arrays) == len(self.inputs):
            results = self.run_in_order(arrays)
            return results[0] if len(results) == 1 else tuple(results)
        names = [info.name for info in self.inputs]
        if out is not None and "out" in names:
            named, out = {**named, "out": cast(Array, out)}, None
        in_order = names[: len(arrays)]
        twice = [name for name in in_order if name in named]
        if len(arrays) > len(names) or twice:
            raise InputError(
                "there are too many inputs",
                expected=f"{len(names)}: {', '.join(names)}",
                found=", and by name ".join([f"{len(arrays)} in order", *map(repr, named)]),
            )
        feeds = {**dict(zip(in_order, arrays, strict=True)), **named}
        results = self.run(None, feeds, out=[out] if isinstance(out, np.ndarray) else out)
        return results[0] if len(results) == 1 else tuple(results)

    def bind(self, kept: Mapping[str, str], state: Mapping[str, npt.ArrayLike]) -> BoundModel:
        """Return a model that keeps outputs as inputs of its next call, such as a decoder's cache.

        ``bind({"past": "present"}, {"past": first})`` takes the output `present` as the next
        `past`, without a copy.

        Parameters
        ----------
        kept : dict of str
            Outputs by the names of the inputs that they become.
        state : dict of array_like
            The values of these inputs in the first call.

        Returns
        -------
        BoundModel
            The model, which takes and returns what is not kept.

        Raises
        ------
        InputError
            If names or types do not fit.
        """
        return BoundModel(self, kept, state)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        facts = [self.target, threads]
        if self._known_programs():  # a model without programs has no weights in memory yet
            facts.append(f"{_size(self.weight_bytes)} of weights")
        return f"<{type(self).__name__} ({inputs}) -> ({outputs}); {', '.join(facts)}>"

    def get_inputs(self) -> tuple[ValueInfo, ...]:
        """Return the name, the shape and the element type of each input.

        Returns
        -------
        tuple of ValueInfo
            The inputs; names stand for symbolic dimensions.
        """
        return self.inputs

    def get_outputs(self) -> tuple[ValueInfo, ...]:
        """Return the name, the shape and the element type of each output.

        Returns
        -------
        tuple of ValueInfo
            The outputs; names stand for symbolic dimensions.
        """
        return self.outputs

    def _followed(
        self, rest: Runner[Any], arrays: Sequence[Array], first: Sequence[Array]
    ) -> list[Array]:
        """Return all outputs of a program with graph breaks, from its inputs and the first
        subprogram's results."""
        inputs = dict(zip(self._names, arrays, strict=True))
        return rest.run(self._output_names, inputs, first, is_inner=self._is_inner)

    def converted(self, values: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Convert inputs to the arrays that programs take.

        Parameters
        ----------
        values : dict of array_like
            Some inputs by name.

        Returns
        -------
        dict of ndarray
            Contiguous arrays, and lists of arrays for sequences.

        Raises
        ------
        InputError
            If names, shapes or element types are wrong.
        """
        known = {each.name: each for each in self._inputs}
        if not values.keys() <= known.keys():
            raise self._wrong_names(values, needed=())
        arrays = {name: known[name].convert(value) for name, value in values.items()}
        for name, array in arrays.items():
            known[name].check(known[name].shape_of(array))
        return arrays

    def _wrong_names(
        self, feeds: Mapping[str, npt.ArrayLike], needed: Sequence[ValueInfo] | None = None
    ) -> InputError:
        """Return the error for all missing and unknown names."""
        needed = self.inputs if needed is None else needed
        missing = [str(info) for info in needed if info.name not in feeds]
        unknown = [repr(name) for name in feeds if name not in self._names]
        parts = (("missing", missing), ("unknown", unknown))
        return InputError(
            "; ".join(_these(what, names) for what, names in parts if names),
            expected=", ".join(info.name for info in self.inputs) or "none",
            found=", ".join(map(str, feeds)) or "none",
        )

    def _positions(self, names: Sequence[str]) -> list[int]:
        known = self._output_names
        is_list = isinstance(names, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(names, str) or not is_list:
            raise InputError(
                "outputs must be given as a list of names",
                expected=f"some of {', '.join(known)}; None for all",
                found=repr(names),
            )
        wrong = [n for n in names if n not in known]
        if wrong:
            raise InputError(f"no output {', '.join(map(repr, wrong))}", expected=", ".join(known))
        return [known.index(n) for n in names]

    def _checked(self, values: Sequence[npt.ArrayLike]) -> tuple[Shapes, list[Array]]:
        """Convert all inputs to arrays that fit the signature; return their shapes, and the arrays.
        Raises InputError if a value has the wrong shape or element type."""
        arrays: list[Any] = [*values]
        for i, wanted in enumerate(self._inputs):
            value = arrays[i]
            if not (
                type(value) is np.ndarray and value.dtype == wanted.dtype and value.flags.carray
            ):
                arrays[i] = wanted.convert(value)
        shapes = self._shapes(arrays) if self._passed else tuple([x.shape for x in arrays])
        if shapes not in self._known_shapes:
            remembered(self._known_shapes, shapes, MAX_KNOWN, partial(self._check_shapes, shapes))
        return shapes, arrays

    def _shapes(self, arrays: Sequence[Any]) -> Shapes:
        pairs = zip(self._inputs, arrays, strict=True)
        return tuple(wanted.shape_of(array) for wanted, array in pairs)

    def _check_shapes(self, shapes: Shapes) -> None:
        """Raise InputError for shapes that do not fit the signature."""
        for wanted, shape in zip(self._inputs, shapes, strict=True):
            wanted.check(shape)
        self._check_symbols(shapes)

    def _check_symbols(self, shapes: Shapes) -> None:
        """Raise InputError unless each symbol has the same size in all inputs."""
        sizes: dict[str, int] = {}
        for known, shape in zip(self.inputs, shapes, strict=True):
            for symbol, size in zip(known.shape, shape, strict=True):
                if isinstance(symbol, str) and sizes.setdefault(symbol, size) != size:
                    raise InputError(
                        f"the dimension {symbol!r} has two sizes",
                        where=f"input {known.name!r}",
                        expected=str(sizes[symbol]),
                        found=str(size),
                    )


def _these(what: str, inputs: Sequence[str]) -> str:
    return f"{'an input is' if len(inputs) == 1 else 'inputs are'} {what}: {', '.join(inputs)}"


def _size(count: int) -> str:
    """Format a number of bytes."""
    units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))
    unit, scale = next((each for each in units if count >= each[1]), units[-1])
    return f"{count / scale:.3g} {unit}"
