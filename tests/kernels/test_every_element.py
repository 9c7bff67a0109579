"""Casts, elementwise ops, products, pools, norms, reductions, moves and gathers of every element
that there is native code for: against the NumPy kernels, and none of them runs in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.explain.explain import explain
from tessella.driver.options import make_options
from tessella.kernels.elements import NATIVE
from tessella.runtime.elements import converted, tagged, widened
from tessella.runtime.explain_types import OpEntry
from tessella.support.elements import ELEMENTS
from tessella.support.errors import ShapeError
from tests.kernels.test_elements import sample
from tests.native import EMULATED, FixedSource, GraphBuilder
from tests.sampling import SLOW

Array = npt.NDArray[Any]
ARCH = targets.native().arch

IN_NUMPY = {nn.WeightOp, nn.SplatOp, nn.FusedOp, nn.YieldOp, nn.ScanOp, nn.TrimOp}
"""Ops that do not compute by themselves."""

WIDE_IN_NUMPY = {nn.NonMaxSuppressionOp}
"""Ops that there is no native code of in f64."""

MATRIX = ("T", 4, 37)
IMAGE = ("T", 1, 4, 7, 9)
INDICES = ("index", 3)
SETTINGS: Mapping[str, Any] = {
    "to": attribute_of("f32"),
    "alpha": 0.5,
    "beta": 0.25,
    "low": 0.0,
    "high": 100.0,
}
WINDOW: Mapping[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
RESIZE: Mapping[str, Any] = {
    "sizes": (1, 4, 9, 11),
    "scales": (1.0, 1.0, 9 / 7, 11 / 9),
    "coordinates": "half_pixel",
    "nearest_mode": "floor",
}
POOL: Mapping[str, Any] = {**WINDOW, "kernel_shape": (2, 3), "ceil_mode": False}
AXES: Mapping[str, Any] = {"axes": (1,), "keepdims": False}
ALONG: Mapping[str, Any] = {"exclusive": False, "reverse": False}
PLACE: Mapping[str, Any] = {"axis": 1, "keepdims": True, "select_last_index": False}
Case = tuple[type[NnOp], Sequence[tuple[Any, ...]], Mapping[str, Any]]

CASES: Sequence[Case] = (
    (nn.MatmulOp, [("T", 5, 37), ("T", 37, 6)], {"transpose_b": False}),
    (nn.FcOp, [("T", 5, 37), ("T", 37, 6), ("T", 6)], {"transpose_w": False}),
    (nn.PackedMatmulOp, [("T", 5, 48), ("i32", 6, 2, 3, 1), ("T", 6, 2)], {"bits": 4, "table": ()}),
    (nn.ConvOp, [IMAGE, ("T", 8, 4, 3, 3)], {**WINDOW, "groups": 1}),
    (
        nn.ConvTransposeOp,
        [IMAGE, ("T", 4, 8, 3, 3)],
        {**WINDOW, "groups": 1, "output_pads": (0, 0)},
    ),
    (
        nn.AttentionOp,
        [("T", 1, 2, 4, 8)] * 3,
        {"scale": 0.3, "transposed_k": False, "causal": False, "past": 0, "nan_as_zero": False},
    ),
    (nn.MaxPoolOp, [IMAGE], POOL),
    (nn.AvgPoolOp, [IMAGE], {**POOL, "count_include_pad": False}),
    (
        nn.Col2imOp,
        [("T", 1, 4, 2, 3, 7, 9)],
        {"image": (8, 10), "strides": (1, 1), "dilations": (1, 1), "starts": (0, 1)},
    ),
    (nn.ReduceSumOp, [MATRIX], AXES),
    (nn.ReduceMeanOp, [MATRIX], AXES),
    (nn.ReduceMaxOp, [MATRIX], AXES),
    (nn.ReduceMinOp, [MATRIX], AXES),
    (nn.ReduceProdOp, [("T", 4, 3)], AXES),
    (nn.ArgMaxOp, [MATRIX], PLACE),
    (nn.ArgMinOp, [MATRIX], {**PLACE, "keepdims": False}),
    (nn.CumsumOp, [MATRIX], ALONG | {"axis": 1}),
    (nn.CumprodOp, [("T", 4, 3)], ALONG | {"axis": 1, "reverse": True}),
    (nn.CummaxOp, [MATRIX], ALONG | {"axis": 0, "exclusive": True}),
    (nn.CumminOp, [MATRIX], ALONG | {"axis": 1}),
    (nn.TopkOp, [MATRIX], {"k": 3, "axis": 1, "largest": True}),
    (
        nn.NonMaxSuppressionOp,
        [("T", 2, 9, 4), ("T", 2, 3, 9), ("index",), ("T",)],
        {"room": 5, "centered": True},
    ),
    (
        nn.RoiAlignOp,
        [IMAGE, ("T", 3, 4), ("zeros", 3)],
        {"sizes": (2, 3), "scale": 1.0, "samples": 2, "mode": "avg", "half_pixel": True},
    ),
    (nn.MaxRoiPoolOp, [IMAGE, ("T", 3, 4), ("zeros", 3)], {"sizes": (2, 3), "scale": 2.0}),
    (
        nn.TreeEnsembleOp,
        [MATRIX, ("T", 9), ("index", 9), ("T", 9, 3)],
        {"trees": 4, "levels": 3, "bits": 1, "aggregate": "max"},
    ),
    (nn.SoftmaxOp, [MATRIX], {"axis": 1}),
    (nn.LogSoftmaxOp, [MATRIX], {"axis": 1}),
    (nn.LayerNormOp, [MATRIX, ("T", 37), ("T", 37)], {"axis": 1, "epsilon": 1e-3}),
    (nn.RmsNormOp, [MATRIX, ("T", 37)], {"axis": 1, "epsilon": 1e-3}),
    (nn.GroupNormOp, [IMAGE, ("T", 4), ("T", 4)], {"groups": 2, "epsilon": 1e-3}),
    (nn.BatchNormOp, [IMAGE, *[("T", 4)] * 3, ("positive", 4)], {"epsilon": 1e-3}),
    (nn.LrnOp, [IMAGE], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
    (nn.ReshapeOp, [MATRIX], {"shape": (37, 4)}),
    (nn.TransposeOp, [MATRIX], {"perm": (1, 0)}),
    (nn.ChannelShuffleOp, [IMAGE], {"groups": 2}),
    (nn.SliceOp, [MATRIX], {"starts": (1, 30), "sizes": (2, 9), "steps": (1, -3)}),
    (nn.PadOp, [MATRIX], {"low": (1, 2), "high": (0, 3), "mode": "constant", "value": 1.0}),
    (nn.ConcatOp, [MATRIX, ("T", 2, 37)], {"axis": 0}),
    (nn.ExpandOp, [("T", 1, 37)], {"shape": (4, 37)}),
    (nn.TileOp, [MATRIX], {"repeats": (2, 3)}),
    (nn.ResizeOp, [IMAGE], {**RESIZE, "mode": "nearest"}),
    (nn.ResizeOp, [IMAGE], {**RESIZE, "mode": "linear"}),
    (nn.GatherOp, [MATRIX, INDICES], {"axis": 0}),
    (nn.GatherElementsOp, [MATRIX, ("index", 2, 37)], {"axis": 0}),
    (nn.GatherNdOp, [MATRIX, ("index", 3, 1)], {"batch_dims": 0}),
    (
        nn.ScatterElementsOp,
        [MATRIX, ("index", 9, 37), ("T", 9, 37)],
        {"axis": 0, "reduction": "none"},
    ),
    (nn.ScatterNdOp, [MATRIX, ("index", 3, 1), ("T", 3, 37)], {"reduction": "max"}),
)


TAGS: Mapping[type[NnOp], Sequence[str]] = {
    nn.QuantizeOp: ("T", "positive", "u8"),
    nn.DequantizeOp: ("T", "f32", "T"),
}
"""The elements of the operands, where they are not all one."""


def _elementwise() -> Iterator[Case]:
    """All elementwise ops, on matrices."""
    for op in nn.Nn.operations:
        if issubclass(op, ElementwiseOp):
            definition = op.get_irdl_definition()
            tags = TAGS.get(op) or [
                "bool" if name == "condition" else "T" for name, _ in definition.operands
            ]
            yield (
                op,
                [(tag, 4, 37) for tag in tags],
                {name: SETTINGS[name] for name in op.setting_defs()},
            )


ALL = (*_elementwise(), *CASES)


def test_every_op_is_here() -> None:
    """But those that take no elements: their results follow from sizes."""
    ops = {op for op in nn.Nn.operations if issubclass(op, NnOp)}
    ops = {op for op in ops if not issubclass(op, nn.SymbolicOp)}
    assert ops - IN_NUMPY == {op for op, _, _ in ALL}


def _array(tag: str, shape: Sequence[int], element: str, seed: int) -> Array:
    if tag == "zeros":
        return np.zeros(shape, np.int64)
    if tag == "index":
        return np.asarray(np.random.default_rng(seed).integers(0, 4, shape))
    array = sample(element if tag in ("T", "positive") else tag, *shape, seed=seed)
    return converted(np.abs(widened(array)), array.dtype) if tag == "positive" else array


@dataclass
class Program:
    """All ops that take an element, each on inputs of its own: an output for each."""

    element: str
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    cases: list[tuple[type[NnOp], list[str], Mapping[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.cases = []
        for number, (op, operands, settings) in enumerate(ALL):
            arrays = {
                f"{op.name}.{number}.{i}": _array(tag, shape, self.element, number + i)
                for i, (tag, *shape) in enumerate(operands)
            }
            if _takes(op, arrays, settings):
                self.inputs |= arrays
                self.cases.append((op, list(arrays), settings))

    def graph(self) -> Graph:
        """The program as a graph."""
        g = GraphBuilder(**self.inputs)
        results = [g.op(op, [g.inputs[x] for x in xs], **more) for op, xs, more in self.cases]
        return g.graph(*results)


def _takes(op: type[NnOp], arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> bool:
    try:
        op.make(list(GraphBuilder(**arrays).inputs.values()), **settings)
    except ShapeError:
        return False
    return True


def _tolerance(element: str) -> float:
    """Return the tolerance of a chain of rounded steps, relative to the largest value."""
    return 8 * ELEMENTS[element].epsilon if ELEMENTS[element].is_float else 0.0


def _explained(graph: Graph, **options: Any) -> list[OpEntry]:
    return explain(lower(graph, make_options(**options), stop="placed").stages).ops


@pytest.mark.sweep
@pytest.mark.parametrize("element", NATIVE)
def test_nothing_runs_in_numpy(element: str) -> None:
    ops = _explained(Program(element).graph())
    in_numpy = {op["op"] for op in ops if op["kernel"] == "host"}
    assert in_numpy == ({op.name for op in WIDE_IN_NUMPY} if element == "f64" else set())


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", *EMULATED])
@pytest.mark.parametrize("element", NATIVE if SLOW else ("bf16", "i8"))
def test_the_results_are_those_of_numpy(element: str, target: str) -> None:
    program = Program(element)
    model = compile_source(FixedSource(program.graph), target=target)
    found = model.run(None, program.inputs)
    wanted = interpret(program.graph(), program.inputs)
    for (op, _, _), y, expected in zip(program.cases, found, wanted, strict=True):
        _check(op.name, y, expected, _tolerance(element))


def _check(name: str, found: Array, wanted: Array, tolerance: float) -> None:
    assert tagged(found).dtype == wanted.dtype, name
    x, y = widened(found), widened(wanted)
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(x, y, name)
    else:
        largest = np.abs(y, where=np.isfinite(y), out=np.zeros_like(y)).max()
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * largest, err_msg=name)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_a_narrow_place_serves_all_ops(precision: str) -> None:
    """Also those whose results are booleans or indices, whatever their floats are stored in."""
    ops = _explained(Program("f32").graph(), places=[f"{ARCH}/{precision}"])
    assert [op["op"] for op in ops if op["kernel"] == "host" or op["fallback"]] == []
