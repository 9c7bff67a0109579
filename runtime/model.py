"""A model that can be called: its signature, and a program for each set of shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import dtype_name, dtype_named, tagged
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import InputError

Array = npt.NDArray[Any]

Shapes = tuple[tuple[int, ...], ...]
"""Of the inputs, in order."""


@dataclass(frozen=True)
class _Input:
    """The specification of an input."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]

    def convert(self, value: npt.ArrayLike) -> Array:
        """The value as a contiguous array. Raises InputError where it does not fit."""
        dtype = dtype_name(self.dtype)
        try:
            array = tagged(np.asarray(value))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"input {self.name!r} is not an array: {error}",
                expected=f"{dtype} {self.shape}",
            ) from error
        if array.dtype != self.dtype:
            raise InputError(
                f"input {self.name!r} has the wrong element type",
                expected=dtype,
                found=dtype_name(array.dtype),
                hint=f"pass x.astype({dtype!r})",
            )
        if not fits(array.shape, self.shape):
            raise InputError(
                f"input {self.name!r} has the wrong shape",
                expected=str(self.shape),
                found=str(array.shape),
            )
        return np.require(array, requirements=["C", "A"])


def fits(shape: Sequence[object], wanted: tuple[int | str, ...]) -> bool:
    """Whether a shape has these sizes. A symbol stands for any size."""
    return len(shape) == len(wanted) and all(
        (isinstance(want, str) and isinstance(have, int) and have >= 0) or want == have
        for want, have in zip(wanted, shape, strict=True)
    )


class Model(ABC):
    """A signature, whose dimensions may be symbolic, and programs."""

    def __init__(
        self, inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], threads: int
    ) -> None:
        self.inputs: tuple[ValueInfo, ...] = tuple(inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(outputs)
        self.threads = threads
        """How many threads run it."""
        self._inputs = [_Input(i.name, dtype_named(i.dtype), i.shape) for i in self.inputs]
        self._symbolic = any(isinstance(d, str) for info in self.inputs for d in info.shape)

    @abstractmethod
    def _results(self, shapes: Shapes, arrays: Sequence[Array]) -> list[Array]:
        """All outputs for inputs that fit the signature, which have these shapes."""

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> list[Array]:
        """The outputs of these names (all of them for None), for inputs by name.

        Raises InputError for wrong names, shapes or element types.
        """
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                "inputs must be given by name",
                expected="a dictionary of arrays",
                found=type(feeds).__name__,
                hint="model(x) takes them in order",
            )
        arrays = [self._checked(each, feeds) for each in self._inputs]
        if len(feeds) != len(arrays):
            raise self._wrong_names(feeds)
        shapes = tuple([a.shape for a in arrays])
        if self._symbolic:
            self._check_symbols(shapes)
        results = self._results(shapes, arrays)
        if output_names is None:
            return results
        return [results[i] for i in self._positions(output_names)]

    def __call__(self, /, *arrays: npt.ArrayLike, **named: npt.ArrayLike) -> Any:
        """The output for inputs in order, the last ones by name where that is easier; a list where
        there are several outputs."""
        names = [info.name for info in self.inputs]
        count = len(arrays) + len(named)
        if count != len(names):
            raise InputError(
                "wrong number of inputs",
                expected=f"{len(names)}: {', '.join(names)}",
                found=str(count),
            )
        results = self.run(None, {**dict(zip(names, arrays, strict=False)), **named})
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, infos)) for infos in (self.inputs, self.outputs))
        return f"<{type(self).__name__} ({inputs}) -> ({outputs})>"

    def get_inputs(self) -> tuple[ValueInfo, ...]:
        """Name, shape and type of each input."""
        return self.inputs

    def get_outputs(self) -> tuple[ValueInfo, ...]:
        """Name, shape and type of each output."""
        return self.outputs

    def _converted(self, values: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Inputs by name. Raises InputError where they do not fit."""
        known = {each.name: each for each in self._inputs}
        if not values.keys() <= known.keys():
            raise self._wrong_names(values)
        return {name: known[name].convert(value) for name, value in values.items()}

    def _wrong_names(self, feeds: Mapping[str, npt.ArrayLike]) -> InputError:
        return InputError(
            "the names of the inputs are wrong",
            expected=", ".join(info.name for info in self.inputs) or "none",
            found=", ".join(map(str, feeds)) or "none",
        )

    def _positions(self, names: Sequence[str]) -> list[int]:
        known = [info.name for info in self.outputs]
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

    def _checked(self, wanted: _Input, feeds: Mapping[str, npt.ArrayLike]) -> Array:
        name, dtype, shape = wanted.name, wanted.dtype, wanted.shape
        if name not in feeds:
            raise self._wrong_names(feeds)
        array = feeds[name]
        if (
            type(array) is np.ndarray
            and array.dtype == dtype
            and array.shape == shape
            and array.flags.carray
        ):
            return array
        return wanted.convert(array)

    def _check_symbols(self, shapes: Shapes) -> None:
        """A symbol stands for one size in all inputs."""
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
