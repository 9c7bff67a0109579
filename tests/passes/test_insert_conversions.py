"""Conversions in programs that run: casts between precisions, where they stand, and constants."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tessella import kernels, targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import ANY_LAYOUT, NCHW, NHWC, Layout
from tessella.dialects.nn.core import NnOp, tensor
from tessella.dialects.place import PlaceAttr
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.explain.explain import explain
from tessella.driver.model.model import Model
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import StageSource, save_stage
from tessella.kernels.elements import rows
from tessella.kernels.registry import Kernel, kernels_of, registered
from tessella.support.errors import UnsupportedError
from tests.native import FixedSource
from tests.passes.harness import Array, GraphBuilder, sample

ARCH = targets.native().arch


def cheap(op: Any, target: Any) -> float:
    return 1e-12


def in_precision(
    precision: str, *ops: type[NnOp], layout: Layout = ANY_LAYOUT
) -> AbstractContextManager[None]:
    """Kernels that compute in a precision whatever the op's is: the generated ones."""
    layouts = () if layout == ANY_LAYOUT else (layout,)
    kernels = [
        replace(k, name=f"{k.name}.{precision}", elements=rows([precision]), layouts=layouts)
        for k in map(generated, ops)
    ]
    return registered(*(replace(k, cost=cheap) for k in kernels))


def in_precision_on_host(precision: str, *ops: type[NnOp]) -> AbstractContextManager[None]:
    """NumPy's kernels in a precision."""
    name, elements = f"host.{precision}", rows([precision])
    return registered(*(Kernel(name, op, "host", (NCHW,), elements, cost=cheap) for op in ops))


def generated(op: type[NnOp]) -> Kernel:
    kernels.load()
    return next(k for k in kernels_of(op.create()) if k.runs_on(ARCH))


def compiled(make: Callable[[], Graph], *places: str) -> Model:
    return compile_source(FixedSource(make), places=places)


def conversions(model: Model) -> list[tuple[str, str, str]]:
    """The op, and where from and where to, without the target."""
    return [
        (c["op"], c["source"].partition("/")[2], c["target"].partition("/")[2])
        for c in model.explain().conversions
    ]


def tiny() -> Array:
    """Numbers that 1 + x loses in f32, and keeps in f64."""
    return (1e-9 * np.arange(1, 38)).astype(np.float32)


def log1p(one: Callable[[GraphBuilder], SSAValue]) -> Graph:
    g = GraphBuilder(x=tiny())
    return g.graph(g.op(nn.LogOp, [g.op(nn.AddOp, [g.inputs["x"], one(g)])]))


def weight_of_ones(g: GraphBuilder) -> SSAValue:
    return g.weight(np.linspace(1, 1 + 1e-6, 37).astype(np.float32))


def splat_of_ones(g: GraphBuilder) -> SSAValue:
    op = nn.SplatOp(1.0, tensor(f32, ()))
    g.main.body.block.add_op(op)
    return op.res


@pytest.mark.parametrize("one", [weight_of_ones, splat_of_ones])
def test_ops_compute_in_another_precision(one: Callable[[GraphBuilder], SSAValue]) -> None:
    """The constant is converted when the program is compiled."""
    with in_precision("f64", nn.AddOp, nn.LogOp):
        model = compiled(lambda: log1p(one), f"{ARCH}/f64")
        assert conversions(model) == [
            ("place.cast", "f32/nchw", "f64/nchw"),
            ("place.cast", "f64/nchw", "f32/nchw"),
        ]
        found = model(tiny())
    assert found.dtype == np.float32
    ones = np.linspace(1, 1 + 1e-6, 37).astype(np.float32) if one is weight_of_ones else 1.0
    exact = np.log(tiny().astype(np.float64) + ones)
    assert_array_equal(found, exact.astype(np.float32))
    assert not np.allclose(found, np.log(tiny() + np.float32(1)), rtol=1e-3)


def test_a_cast_rounds() -> None:
    x = np.random.default_rng(0).standard_normal((5, 7))

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.AbsOp, [g.inputs["x"]]))

    with in_precision("f32", nn.AbsOp):
        model = compiled(make, f"{ARCH}/f32")
        assert [c[0] for c in conversions(model)] == ["place.cast"] * 2
        found = model(x)
    assert found.dtype == np.float64
    assert_array_equal(found, np.abs(x.astype(np.float32)).astype(np.float64))


def test_a_convolution_in_another_precision() -> None:
    """Its weights are converted at compile time, and the activation runs in its registers."""
    x, w, b = sample(0, 1, 8, 9, 9), sample(1, 8, 8, 3, 3), sample(2, 8)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        operands = [g.inputs["x"], g.weight(w), g.weight(b, "b")]
        return g.graph(g.op(nn.ReluOp, [g.op(nn.ConvOp, operands, **CONV)]))

    wide: dict[str, Any] = {"name": "conv.f64", "elements": rows(["f64"]), "cost": cheap}
    weights = {1: PlaceAttr.get(ARCH, "f64", NCHW)}
    conv = replace(generated(nn.ConvOp), layouts=(NHWC,), operands=weights, **wide)
    with registered(conv), in_precision("f64", nn.ReluOp):
        model = compiled(make, f"{ARCH}/f64/nhwc")
        found = model(x)
    assert re.findall(r"tile.call @([a-z0-9_.]*)_", model.as_text("tile")) == [
        *("relayout", "cast", "conv.f64_relu.f64_cast", "relayout")
    ]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    exact = np.einsum("bchwij,ocij->bohw", windows, w) + b[:, None, None]
    assert_array_equal(found, np.maximum(exact, 0).astype(np.float32))


def test_operands_of_another_integer_precision() -> None:
    """Some kernels take their indices in 32 bits."""
    x, rows = sample(0, 9, 5), np.array([3, 0, -1])

    def make() -> Graph:
        g = GraphBuilder(x=x, rows=rows)
        return g.graph(g.op(nn.GatherOp, [g.inputs["x"], g.inputs["rows"]], axis=0))

    narrow = {1: PlaceAttr.get(ARCH, "i32")}
    gather = replace(generated(nn.GatherOp), name="narrow", cost=cheap, operands=narrow)
    with registered(gather):
        model = compiled(make, f"{ARCH}/f32")
        assert conversions(model) == [("place.cast", "i64/nchw", "i32/nchw")]
        assert_array_equal(model(x, rows), x[rows])


def test_casts_on_the_host() -> None:
    """NumPy computes in f64, and the CPU converts."""
    with in_precision_on_host("f64", nn.AddOp, nn.LogOp):
        model = compiled(lambda: log1p(splat_of_ones), "host/f64")
        assert [c[0] for c in conversions(model)] == [
            "place.cast",
            "place.copy",
            "place.copy",
            "place.cast",
        ]
        assert_array_equal(model(tiny()), np.log(tiny().astype(np.float64) + 1).astype(np.float32))


def test_a_cast_of_nothing() -> None:
    x = np.zeros((0, 3), np.float32)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.AbsOp, [g.inputs["x"]]))

    with in_precision_on_host("f64", nn.AbsOp):
        assert compiled(make, "host/f64")(x).shape == (0, 3)


def test_a_value_is_moved_where_it_is_narrow() -> None:
    """Widened after the change of order, narrowed before it; once for all readers."""
    x = sample(0, 2, 3, 40, 50)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        a, b = (g.op(kind, [g.inputs["x"]]) for kind in (nn.TanhOp, nn.NegOp))
        return g.graph(g.op(nn.AddOp, [a, b]))

    with in_precision("f64", nn.TanhOp, nn.NegOp, nn.AddOp, layout=NHWC):
        model = compiled(make, f"{ARCH}/f64/nhwc")
        assert conversions(model) == [
            ("place.relayout", "f32/nchw", "f32/nhwc"),
            ("place.cast", "f32/nhwc", "f64/nhwc"),
            ("place.cast", "f64/nhwc", "f32/nhwc"),
            ("place.relayout", "f32/nhwc", "f32/nchw"),
        ]
        assert_allclose(model(x), np.tanh(x.astype(np.float64)) - x, rtol=1e-6)


@pytest.mark.parametrize("stage", ["placed", "tile", "loops"])
def test_a_stage_with_casts_loads_again(stage: str, tmp_path: Path) -> None:
    with in_precision("f64", nn.AddOp, nn.LogOp):
        model = compiled(lambda: log1p(weight_of_ones), f"{ARCH}/f64")
        wanted = model(tiny())
        options = make_options(places=[f"{ARCH}/f64"])
        lowered = lower(log1p(weight_of_ones), options, stop=stage)
        save_stage(tmp_path / f"m.{stage}", lowered.stages[stage], lowered.weights)
        loaded = compile_source(StageSource(tmp_path / f"m.{stage}"))
        assert_array_equal(loaded(tiny()), wanted)


def test_what_cannot_be_computed_in() -> None:
    with in_precision("f8E5M2", nn.LogOp), pytest.raises(UnsupportedError) as caught:
        compiled(lambda: log1p(weight_of_ones), f"{ARCH}/f8E5M2")
    casts = [issue for issue in caught.value.issues if issue.op == "place.cast"]
    assert casts
    assert all(f"{ARCH}/f8E5M2/nchw" in issue.reason for issue in casts)


def test_a_cast_goes_before_what_repeats_elements() -> None:
    x = sample(0, 1, 60)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        a = g.op(nn.ExpandOp, [g.inputs["x"]], shape=(500, 60))
        return g.graph(g.op(nn.SoftmaxOp, [a], axis=1))

    with in_precision("f64", nn.SoftmaxOp):
        model = compiled(make, f"{ARCH}/f64", ARCH)
        assert [c["bytes"] for c in model.explain().conversions] == [60 * 4, 500 * 60 * 8]
        assert all(op["estimate"] is not None for op in model.explain().ops)
        exact = np.exp(x.astype(np.float64))
        assert_allclose(model(x), np.broadcast_to(exact / exact.sum(), (500, 60)), rtol=1e-7)


def test_a_cast_goes_after_what_drops_elements() -> None:
    x = sample(0, 500, 60)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        a = g.op(nn.SoftmaxOp, [g.inputs["x"]], axis=1)
        return g.graph(g.op(nn.SliceOp, [a], starts=(0, 1), sizes=(3, 2), steps=(1, 2)))

    with in_precision("f64", nn.SoftmaxOp):
        model = compiled(make, f"{ARCH}/f64", ARCH)
        assert [c["bytes"] for c in model.explain().conversions] == [500 * 60 * 4, 3 * 2 * 8]
        exact = np.exp(x.astype(np.float64))
        wanted = exact / exact.sum(axis=1, keepdims=True)
        assert_allclose(model(x), wanted[:3, 1:4:2], rtol=1e-7)


CONV: dict[str, Any] = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1}


def test_a_change_of_order_goes_before_what_repeats_elements() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 1, 16, 1, 64))
        a = g.op(nn.ExpandOp, [g.inputs["x"]], shape=(1, 16, 64, 64))
        return g.graph(g.op(nn.ConvOp, [a, g.weight(sample(1, 16, 16, 3, 3))], **CONV))

    options = make_options(places=["x86/f32/nhwc"], target="avx512")
    first, _ = explain(lower(make(), options, stop="placed").stages).conversions
    assert (first["op"], first["value"], first["readers"]) == ("place.relayout", "x", ["nn.expand"])


def test_a_change_of_order_goes_after_what_drops_elements() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 1, 16, 64, 64))
        sides = {"starts": (0,) * 4, "sizes": (1, 16, 8, 8), "steps": (1,) * 4}
        a = g.op(nn.SliceOp, [g.inputs["x"]], **sides)
        return g.graph(g.op(nn.ConvOp, [a, g.weight(sample(1, 16, 16, 3, 3))], **CONV))

    lowered = lower(make(), make_options(target="avx512"), stop="placed")
    first, _ = explain(lowered.stages).conversions
    assert (first["op"], first["value"]) == ("place.relayout", "nn.slice")
    assert first["bytes"] == 16 * 8 * 8 * 4
