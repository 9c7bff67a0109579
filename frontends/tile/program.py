"""``tessella.tile``: programs in the Tile language, compiled on demand."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, cast

import numpy as np
import numpy.typing as npt

from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import Array, element_type
from tessella.dialects.place import parse_place, precision_of
from tessella.driver.model.in_calls import CompilesInCalls
from tessella.driver.options import CheckedOptions, CompileOptions, make_options
from tessella.driver.specialise.open_sizes import Dims
from tessella.frontends.dims import ArgumentDims, DimNames
from tessella.frontends.programs import (
    USUAL,
    CompiledOnDemand,
    FixedProgram,
    FunctionModel,
    FunctionSource,
    Lowered,
)
from tessella.frontends.tile.bind import BoundProgram, bind, check_type
from tessella.frontends.tile.build import build
from tessella.frontends.tile.check import check
from tessella.frontends.tile.parse import parse
from tessella.frontends.tile.source import TileText
from tessella.frontends.trace.arguments import Spec
from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.runtime.sparse import check_dense
from tessella.runtime.specs import TensorSpec
from tessella.support.errors import InputError, OptionError
from tessella.support.sizes import Size

_NUMBERS: Mapping[type[Any], npt.DTypeLike] = {bool: np.bool, int: np.int32, float: np.float32}
"""The dtypes of Python numbers that are passed to a program, by their type."""


DType = np.dtype[Any]
Types = tuple[tuple[int, DType], ...]
"""The ranks and dtypes of arguments."""

_HINT = (
    "Each dtype has programs of its own, and so has each shape where sizes cannot stay open, as "
    "explain() of the program tells: pad arrays to a few shapes"
)


class TileProgram(CompiledOnDemand[FunctionModel]):
    """A Tile program that is compiled for the dtypes and shapes of its arguments."""

    KIND = "program"

    def __init__(
        self, source: str, dims: object, dim_names: object, options: CheckedOptions
    ) -> None:
        if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                "a Tile program must be a string", expected="str", found=type(source).__name__
            )
        self.source = source
        self._source = TileText(source)
        self._function = parse(self._source)
        check(self._function, self._source)
        self.inputs: tuple[str, ...] = tuple(i.name.name for i in self._function.inputs)
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._function.outputs)
        self._dims = ArgumentDims(dims, dim_names, self.inputs)
        super().__init__(options)
        self._in_calls = CompilesInCalls(expected=USUAL)

    def __call__(self, *args: npt.ArrayLike, **kwargs: npt.ArrayLike) -> Any:
        """Run the program.

        Parameters
        ----------
        *args : array_like
            The inputs by position.
        **kwargs : array_like
            The inputs by name.

        Returns
        -------
        ndarray or tuple of ndarray
            The output, or a tuple where there are several outputs.

        Raises
        ------
        TileError
            If the program does not fit the arrays.
        InputError
            If the arguments are not the inputs of the program.
        """
        arguments = self._arguments(args, kwargs)
        arrays = [_array(name, value) for name, value in zip(self.inputs, arguments, strict=True)]
        types = tuple((a.ndim, a.dtype) for a in arrays)
        model = self._programs.get(types, lambda: self._model(types))
        results = model.run(None, dict(zip(self.inputs, arrays, strict=True)))
        return results[0] if len(results) == 1 else tuple(results)

    def lower(self, *args: npt.ArrayLike | Spec, **kwargs: npt.ArrayLike | Spec) -> Lowered:
        """Bind the program to arguments, without running it.

        Parameters
        ----------
        *args : array_like or Spec
            The inputs by position.
        **kwargs : array_like or Spec
            The inputs by name.

        Returns
        -------
        Lowered
            The program, to be inspected at any stage.

        Raises
        ------
        TileError
            If the program does not fit the arguments.
        InputError
            If the arguments are not the inputs of the program.
        """
        arguments = self._arguments(args, kwargs)
        specs = [_spec(name, value) for name, value in zip(self.inputs, arguments, strict=True)]
        return Lowered(self._program(specs), self._options)

    def __repr__(self) -> str:
        return f"tile({self.source!r})"

    def _model(self, types: Types) -> FunctionModel:
        dtypes = [dtype for _, dtype in types]
        dims = self._dims.of(self.inputs, [rank for rank, _ in types])
        for name, dtype in zip(self._function.inputs, dtypes, strict=True):
            check_type(name, dtype, self._source)
        inputs = [
            ValueInfo(name, dtype_name(dtype), shape)
            for name, dtype, shape in zip(self.inputs, dtypes, dims, strict=True)
        ]
        graph = functools.partial(self._graph, dtypes)
        return FunctionModel(FunctionSource(graph, inputs), self._options, self._dims, self._tell)

    def _graph(self, dtypes: Sequence[DType], shapes: Sequence[tuple[Size, ...]]) -> Graph:
        specs = [TensorSpec(s, dtype) for s, dtype in zip(shapes, dtypes, strict=True)]
        bound = bind(self._function, self._source, specs)
        arch = self._options.arch
        _check_places(bound, self._options.places, arch)
        return build(bound, arch)

    def _program(self, specs: Sequence[TensorSpec]) -> FixedProgram:
        return FixedProgram(self._graph([s.dtype for s in specs], [s.shape for s in specs]))

    def _tell(self, inputs: Sequence[str], seconds: float) -> None:
        why = f"it was called with {', '.join(inputs)}"
        self._in_calls.tell("a Tile program", seconds, why, _HINT)

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in input order."""
        rest = self.inputs[len(args) :]
        if len(args) > len(self.inputs) or set(rest) != set(kwargs):
            named = ", ".join(f"{name}=..." for name in kwargs)
            raise InputError(
                "the arguments are not the inputs of the program",
                expected=", ".join(self.inputs) or "none",
                found=", ".join(filter(None, [f"{len(args)} by position", named])),
            )
        return [*args, *(kwargs[name] for name in rest)]


def _array(name: str, value: Any) -> Array:
    """Return an argument as an array in native byte order. Raises InputError."""
    check_dense(value, f"argument {name!r}")
    try:
        array = np.asarray(value, _NUMBERS.get(cast(type[Any], type(value))))
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"the argument {name!r} is not an array: {error}") from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _spec(name: str, value: Any) -> TensorSpec:
    array = value if isinstance(value, Spec) else _array(name, value)
    return TensorSpec(array.shape, array.dtype)


def _check_places(program: BoundProgram, places: Sequence[str], arch: str) -> None:
    """Raise OptionError unless one of the places is for row-major tensors, for each type of the
    program."""
    known = [parse_place(text) for text in places]
    for dtype in dict.fromkeys(spec.dtype for spec in program.specs):
        precision = precision_of(element_type(dtype))
        fits = any(
            place.device.data == arch
            and (dtype.kind != "f" or place.precision.data in ("any", precision))
            and place.layout.name in ("any", "nchw")
            for place in known
        )
        if not fits:
            raise OptionError(
                f"a Tile program with elements of {dtype.name} needs another place",
                expected=f"{arch}/{precision} among the places",
                found=", ".join(places),
            )


def tile(
    source: str,
    *,
    dims: Dims | Literal["auto", "fixed"] = "auto",
    dim_names: DimNames | None = None,
    **options: Unpack[CompileOptions],
) -> TileProgram:
    """Compile a program in the Tile language, written as in PlaidML: see docs/tile-language.md.

    The first shapes have a program of their own. Dimensions whose size varies are dynamic from then
    on, unless the program needs them as numbers.

    Parameters
    ----------
    source : str
        The program.
    dims : dict, "auto" or "fixed"
        As ``jit`` takes it: sizes or bounds by the names that ``dim_names`` gives; with "fixed",
        each set of shapes has a program.
    dim_names : dict
        The names of dimensions that are dynamic from the first call on, by input and dimension:
        ``{"A": {0: "n"}}``.
    **options
        ``places``, ``target``, ``threads``, ``fallback``, ``timeout`` and ``options``, as
        ``tessella.compile`` takes them. A Tile program has one kernel for each statement, so
        ``fallback`` and ``options.pick`` change nothing.

    Returns
    -------
    TileProgram
        The program, to be called with arrays.

    Raises
    ------
    TileError
        If the program is wrong; the message points at the line and the column.
    OptionError
        If an option is wrong.

    Examples
    --------
    >>> matmul = tessella.tile(
    ...     "function (A[M, K], B[K, N]) -> (C) { C[m, n : M, N] = +(A[m, k] * B[k, n]); }"
    ... )
    >>> c = matmul(a, b)
    """
    return TileProgram(source, dims, dim_names, make_options(**options))
