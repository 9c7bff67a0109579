"""Convolutions and pooling in every layout that they are registered in, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.compile import compile_source
from tests.native import EVERYWHERE, RUNNABLE, FixedSource, GraphBuilder, normal
from tests.sampling import sampled

Array = npt.NDArray[Any]

few = settings(
    max_examples=sampled(4),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
layouts = pytest.mark.parametrize("layout", ["nchw", "nhwc", "nchw16c"])
plain = pytest.mark.parametrize("layout", ["nchw", "nhwc"])
widths = pytest.mark.parametrize("target", EVERYWHERE)


def check(
    kind: type[nn.NnOp], x: Array, weights: list[Array], layout: str, target: str, **settings: Any
) -> None:
    """Assert that the kernel at a layout agrees with NumPy, and that it is the one that ran."""

    def make() -> Graph:
        g = GraphBuilder(x=x)
        values = [g.weight(w, f"w{i}") for i, w in enumerate(weights)]
        return g.graph(g.op(kind, [g.inputs["x"], *values], **settings))

    arch = targets.get(target).arch
    model = compile_source(FixedSource(make), places=[f"{arch}/f32/{layout}"], target=target)
    (op,) = model.explain().ops
    assert (op["place"], op["fallback"]) == (f"{arch}/f32/{layout}", None)
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-4)


@widths
@plain
@few
@given(data=st.data())
def test_conv(layout: str, target: str, data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    per_in, per_out = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 20))
    kernel = data.draw(st.sampled_from([(1, 1), (3, 3), (5, 5), (1, 7), (2, 3)]))
    x = normal(
        data.draw(st.integers(1, 2)),
        groups * per_in,
        data.draw(st.integers(9, 23)),
        data.draw(st.integers(9, 40)),
    )
    weights = [normal(groups * per_out, per_in, *kernel, seed=1)]
    if data.draw(st.booleans()):
        weights.append(normal(groups * per_out, seed=2))
    strides = (data.draw(st.integers(1, 3)),) * 2
    pads = tuple(data.draw(st.integers(0, 3)) for _ in range(4))
    dilations = (data.draw(st.integers(1, 2)),) * 2
    options = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    check(nn.ConvOp, x, weights, layout, target, **options)


@widths
@layouts
@few
@given(data=st.data())
def test_depthwise_conv(layout: str, target: str, data: st.DataObject) -> None:
    channels, size = data.draw(st.integers(2, 40)), data.draw(st.integers(5, 35))
    weights = [normal(channels, 1, 3, 3, seed=1)]
    strides = (data.draw(st.integers(1, 2)),) * 2
    options = {"strides": strides, "pads": (1,) * 4, "dilations": (1, 1), "groups": channels}
    check(nn.ConvOp, normal(1, channels, size, size), weights, layout, target, **options)


@layouts
@pytest.mark.parametrize("rank", [1, 3])
def test_conv_of_other_ranks(layout: str, rank: int) -> None:
    options = {"strides": (1,) * rank, "pads": (1,) * (2 * rank), "dilations": (1,) * rank}
    x, w = normal(2, 5, *[9] * rank), normal(7, 5, *[3] * rank, seed=1)
    check(nn.ConvOp, x, [w], layout, RUNNABLE[0], groups=1, **options)


@widths
@layouts
@few
@given(data=st.data())
def test_pooling(layout: str, target: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([nn.MaxPoolOp, nn.AvgPoolOp]))
    kernel = data.draw(st.integers(1, 3))
    size = data.draw(st.integers(6, 35))
    average = {"count_include_pad": data.draw(st.booleans())} if kind is nn.AvgPoolOp else {}
    check(
        kind,
        normal(1, data.draw(st.integers(1, 40)), size, size + 1),
        [],
        layout,
        target,
        kernel_shape=(kernel, kernel),
        strides=(data.draw(st.integers(1, 3)),) * 2,
        pads=tuple(data.draw(st.integers(0, kernel - 1)) for _ in range(4)),
        dilations=(1, 1),
        ceil_mode=data.draw(st.booleans()),
        **average,
    )


@widths
@layouts
@few
@given(data=st.data())
def test_resize_by_whole_factors(layout: str, target: str, data: st.DataObject) -> None:
    """Between convolutions, as it takes any layout, and a change of layout would cost more."""
    ways = [("half_pixel", "round_prefer_floor"), ("asymmetric", "floor")]
    coordinates, rounding = data.draw(st.sampled_from(ways))
    scales = (1.0, 1.0, *(data.draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])) for _ in range(2)))
    x, w = normal(1, 32, data.draw(st.sampled_from([8, 12])), 8), normal(32, 32, 3, 3, seed=1)
    conv = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    settings = {
        "sizes": tuple(int(n * scale) for n, scale in zip(x.shape, scales, strict=True)),
        "scales": scales,
        "mode": "nearest",
        "coordinates": coordinates,
        "nearest_mode": rounding,
    }

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y = g.op(nn.ConvOp, [g.inputs["x"], g.weight(w, "w")], **conv)
        z = g.op(nn.ResizeOp, [y], **settings)
        return g.graph(g.op(nn.ConvOp, [z, g.weight(w, "v")], **conv))

    arch = targets.get(target).arch
    model = compile_source(FixedSource(make), places=[f"{arch}/f32/{layout}"], target=target)
    assert {op["place"] for op in model.explain().ops} == {f"{arch}/f32/{layout}"}
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-3, atol=1e-3)
