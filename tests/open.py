"""Programs whose sizes stay open: compiled with symbols, run for many sizes.

The oracle is the program for the sizes as numbers, by the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any
from unittest import mock

import numpy as np

from tessella.dialects.graph import CompileContext, Graph, signature
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.driver.specialise.open_sizes import OpenSizes
from tessella.passes.infer_shapes import InferShapesPass
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import TessellaError
from tessella.support.sizes import Size, Symbol, symbols_of
from tests.generators.nn_sketch import Program
from tests.native import Array

SIZES = (0, 1, 2, 7, 16, 33)
"""Of each version of a program, and beyond the lanes and tiles of its loops."""


class OpenSource:
    """A source that makes a program for sizes of its open dimensions, by name."""

    fingerprint: str | None = None
    determining: Sequence[str] = ()
    stage = "nn"

    def __init__(self, make: Callable[[Mapping[str, Size]], Graph]) -> None:
        self._make = make
        self.inputs, self.outputs = signature(make({}).module)
        self.symbols: Sequence[Symbol] = ()

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        pairs = (zip(info.shape, shapes[info.name], strict=True) for info in self.inputs)
        return self._make({dim: n for each in pairs for dim, n in each if isinstance(dim, str)})


@contextmanager
def numbers_only_where_undecided() -> Generator[None]:
    """Within, a program is compiled for numbers as a size is undecided, and for no other reason;
    but for what is wrong with numbers, too."""
    narrow = OpenSizes.narrow

    def checked(sizes: OpenSizes, made: Any, error: Exception) -> bool:
        is_open = bool(symbols_of(size for shape in made for size in shape))
        assert not is_open or isinstance(error, UndecidedSizeError), repr(error)
        return narrow(sizes, made, error)

    with mock.patch.object(OpenSizes, "narrow", checked):
        yield


def drawn_sizes(program: Program, count: int, random: Random) -> Iterable[Mapping[str, int]]:
    """Sizes of a program's symbols, each in turn."""
    orders = [random.sample(SIZES, len(SIZES)) for _ in program.symbols]
    names = [symbol.name for symbol in program.symbols]
    drawn = (dict(zip(names, each, strict=True)) for each in zip(*orders, strict=True))
    return islice(drawn, count)


def check_open(
    program: Program,
    sizes: Iterable[Mapping[str, int]],
    *,
    target: str | None = None,
    atol: float = 0.0,
) -> Model:
    """Assert that a program with symbols gives for sizes what it gives with the sizes as numbers.
    What is an error there is one."""
    model = compile_source(
        OpenSource(lambda sizes: program.at(sizes).graph()), target=target, dims={}, threads=1
    )
    for each in sizes:
        made = program.at(each)
        try:
            with np.errstate(all="ignore"):
                InferShapesPass().apply(CompileContext(), made.graph().module)
                expected = made.run([*made.inputs.values()])
        except (TessellaError, ValueError):
            continue  # as the maximum of no elements, or a loop over none
        with numbers_only_where_undecided():
            found = model.run(None, made.inputs)
        for y, wanted in zip(found, expected, strict=True):
            assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(y, wanted, rtol=1e-4 if atol else 0, atol=atol)
    return model
