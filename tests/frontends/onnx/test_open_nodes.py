"""The ONNX node suite with symbols for the sizes of inputs: with numbers for them, each program is
the one for these numbers. What cannot be open says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import onnx
import pytest

from tessella.dialects.bound import bound
from tessella.dialects.graph import Graph
from tessella.dialects.sizes import symbols_in
from tessella.frontends.onnx import OnnxSource
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import TessellaError
from tessella.support.knobs import KNOBS
from tessella.support.sizes import Size, Symbol
from tests.frontends.onnx.suite import Array, inputs_of, node_cases, opened
from tests.frontends.onnx.test_symbols import folded, placed
from tests.fuzz.graphs import draw_case
from tests.fuzz.rows import ROWS
from tests.sampling import SLOW, sample, sampled

MOST = 1 << 20
OPEN, OPEN_GRAPHS = 0.7, 0.3
"""The share of the nodes and of random graphs that stay open, at the least."""


def symbol(size: int) -> Size:
    """Equal sizes are one symbol; 0 and 1 are numbers."""
    return Symbol(f"s{size}", 2, MOST).size if size > 1 else size


def outcome(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> str | None:
    """Why a model cannot be open: an empty text where it is; None where it is not supported, its
    shapes depend on values, or there is nothing to leave open."""
    if not all(hasattr(array, "shape") for array in inputs.values()):
        return None  # a sequence
    shapes = {name: array.shape for name, array in inputs.items()}
    symbols = {name: tuple(map(symbol, shape)) for name, shape in shapes.items()}
    try:
        source = OnnxSource(opened(model))
        graph = source.graph(shapes)
    except TessellaError:
        return None
    if graph.rest is not None or any(symbols_in(graph.module)) or symbols == shapes:
        return None  # only running tells a size
    try:
        found = source.graph(symbols)
    except UndecidedSizeError as error:
        return error.what if error.symbols else None
    module = bound(found.module, {s.name: int(s.name[1:]) for s in symbols_in(found.module)})
    module.verify()
    with suppress(UndecidedSizeError):
        placed(Graph(found.module.clone(), found.weights.copy()))
    assert folded(Graph(module, found.weights)) == folded(graph)
    return ""


@pytest.mark.filterwarnings("ignore")
def test_numbers_for_symbols() -> None:
    with KNOBS.set(verify=False):  # after each pass: the programs of other tests are
        found = Counter(
            outcome(*inputs_of(case)) for case in sample(node_cases())[:: 1 if SLOW else 4]
        )
    known = found.total() - found[None]
    assert found[""] >= OPEN * known, found.most_common(30)


@pytest.mark.filterwarnings("ignore")
def test_numbers_for_symbols_of_random_graphs() -> None:
    cases = (draw_case(Random(seed), ROWS) for seed in range(sampled(200)))
    found = Counter(outcome(case.model(), case.feeds) for case in cases)
    known = found.total() - found[None]
    assert found[""] >= OPEN_GRAPHS * known, found.most_common(30)
