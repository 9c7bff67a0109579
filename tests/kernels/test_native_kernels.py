"""Generated kernels against NumPy, on odd sizes, for every vector width that runs here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import element_type, type_of
from tests.native import (
    EVERYWHERE,
    GraphBuilder,
    OneOp,
    check,
    check_op,
    check_ops,
    normal,
    one_op,
)
from tests.sampling import sampled

Array = npt.NDArray[Any]

widths = pytest.mark.parametrize("target", EVERYWHERE)
few = settings(
    max_examples=sampled(8),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def conv_settings(
    strides: int = 1, pads: tuple[int, ...] = (0, 0, 0, 0), dilations: int = 1, groups: int = 1
) -> dict[str, Any]:
    return {
        "strides": (strides, strides),
        "pads": pads,
        "dilations": (dilations, dilations),
        "groups": groups,
    }


@widths
@few
@given(data=st.data())
def test_matmul(target: str, data: st.DataObject) -> None:
    batch = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    m, n, k = (data.draw(st.integers(1, 70)) for _ in range(3))
    transpose = data.draw(st.booleans())
    b = normal(*batch, n, k) if transpose else normal(*batch, k, n)
    constants = [1] if data.draw(st.booleans()) else []
    check_op(
        nn.MatmulOp,
        [normal(*batch, m, k, seed=1), b],
        constants=constants,
        target=target,
        transpose_b=transpose,
    )


@pytest.mark.sweep
@widths
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("shape", [(1, 5, 7), (33, 17, 65), (128, 70, 48), (2, 1, 1)])
def test_fc(target: str, shape: tuple[int, int, int], transpose: bool) -> None:
    m, n, k = shape
    w = normal(n, k) if transpose else normal(k, n)
    check_op(
        nn.FcOp,
        [normal(m, k, seed=1), w, normal(n, seed=2)],
        constants=[1, 2],
        target=target,
        transpose_w=transpose,
    )


@widths
@few
@given(data=st.data())
def test_conv(target: str, data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    per_in, per_out = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    kernel = data.draw(st.sampled_from([(1, 1), (3, 3), (5, 5), (1, 7), (2, 3)]))
    height, width = data.draw(st.integers(9, 23)), data.draw(st.integers(9, 23))
    pads = tuple(data.draw(st.integers(0, 3)) for _ in range(4))
    options = conv_settings(
        data.draw(st.integers(1, 3)), pads, data.draw(st.integers(1, 2)), groups
    )
    batch = data.draw(st.integers(1, 2))
    operands = [
        normal(batch, groups * per_in, height, width),
        normal(groups * per_out, per_in, *kernel, seed=1),
        normal(groups * per_out, seed=2),
    ]
    check_op(nn.ConvOp, operands, constants=[1, 2], target=target, **options)


@widths
@few
@given(data=st.data())
def test_depthwise_conv(target: str, data: st.DataObject) -> None:
    channels = data.draw(st.integers(2, 70))
    size = data.draw(st.integers(5, 30))
    options = conv_settings(data.draw(st.integers(1, 2)), (1, 1, 1, 1), 1, channels)
    operands = [normal(1, channels, size, size), normal(channels, 1, 3, 3, seed=1)]
    check_op(nn.ConvOp, operands, constants=[1], target=target, **options)


@widths
@pytest.mark.parametrize("rank", [1, 3])
def test_conv_of_other_ranks(target: str, rank: int) -> None:
    operands = [normal(2, 5, *[9] * rank), normal(7, 5, *[3] * rank, seed=1)]
    check_op(
        nn.ConvOp,
        operands,
        constants=[1],
        target=target,
        strides=(1,) * rank,
        pads=(1,) * (2 * rank),
        dilations=(1,) * rank,
        groups=1,
    )


def test_conv_with_variable_weights() -> None:
    check_op(
        nn.ConvOp, [normal(1, 6, 9, 9), normal(20, 6, 3, 3, seed=1)], **conv_settings(1, (1,) * 4)
    )


@widths
@few
@given(data=st.data())
def test_pooling(target: str, data: st.DataObject) -> None:
    channels, size = data.draw(st.integers(1, 70)), data.draw(st.integers(6, 20))
    kind = data.draw(st.sampled_from([nn.MaxPoolOp, nn.AvgPoolOp]))
    kernel = data.draw(st.integers(1, 3))
    extra: dict[str, Any] = (
        {"count_include_pad": data.draw(st.booleans())} if kind is nn.AvgPoolOp else {}
    )
    check_op(
        kind,
        [normal(1, channels, size, size + 1)],
        target=target,
        kernel_shape=(kernel, kernel),
        strides=(data.draw(st.integers(1, 3)),) * 2,
        pads=tuple(data.draw(st.integers(0, kernel - 1)) for _ in range(4)),
        dilations=(1, 1),
        ceil_mode=data.draw(st.booleans()),
        **extra,
    )


@pytest.mark.sweep
@widths
@pytest.mark.parametrize(
    "kind",
    [nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.ReduceProdOp],
)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(
    target: str, kind: type[nn.ReduceOp], axes: tuple[int, ...], keepdims: bool
) -> None:
    x = 0.5 + normal(3, 5, 37) * 0.1
    check_op(kind, [x.astype(np.float32)], target=target, axes=axes, keepdims=keepdims)


@widths
@pytest.mark.parametrize("kind", [nn.SoftmaxOp, nn.LogSoftmaxOp])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(target: str, kind: type[nn.SoftmaxOp], axis: int) -> None:
    check_op(kind, [normal(3, 19, 35) * 9], target=target, axis=axis)


@widths
@pytest.mark.parametrize("shape", [(2, 3, 5), (4, 67), (1, 128, 384)])
def test_layer_norm(target: str, shape: tuple[int, ...]) -> None:
    operands = [normal(*shape), normal(shape[-1], seed=1), normal(shape[-1], seed=2)]
    axis = len(shape) - 1
    check_op(nn.LayerNormOp, operands, constants=[1, 2], target=target, axis=axis, epsilon=1e-5)
    check_op(nn.RmsNormOp, operands[:2], constants=[1], target=target, axis=axis, epsilon=1e-5)


@widths
def test_channel_norms(target: str) -> None:
    x, c = normal(2, 21, 5, 7), normal(21, seed=1)
    variance = np.abs(c) + np.float32(0.5)
    settings = {"epsilon": 1e-5}
    check_ops(
        *(
            one_op(nn.GroupNormOp, x, c, c, constants=[1, 2], groups=n, **settings)
            for n in (1, 7, 21)
        ),
        one_op(nn.BatchNormOp, x, c, c, c, variance, constants=[1, 2, 3, 4], **settings),
        target=target,
    )


@widths
@pytest.mark.parametrize("size", [1, 2, 5])
def test_lrn(target: str, size: int) -> None:
    x = normal(1, 19, 5, 7)
    for beta in (0.75, 1.25, 0.8):
        check_op(nn.LrnOp, [x], target=target, size=size, alpha=0.3, beta=beta, bias=1.0)


@widths
def test_movement(target: str) -> None:
    x, y = normal(2, 3, 5, 17), normal(2, 3, 5, 17, seed=1)
    check_ops(
        one_op(nn.TransposeOp, x, perm=(0, 2, 3, 1)),
        one_op(nn.TransposeOp, x, perm=(3, 1, 0, 2)),
        one_op(nn.SliceOp, x, starts=(1, 2, 0, 16), sizes=(1, 2, 3, 6), steps=(1, -1, 2, -3)),
        one_op(nn.PadOp, x, low=(0, 1, 2, 3), high=(1, 0, 2, 20), mode="constant", value=1.5),
        one_op(nn.ExpandOp, x[:, :1], shape=(4, 2, 6, 5, 17)[1:]),
        one_op(nn.TileOp, x, repeats=(1, 2, 1, 3)),
        *(one_op(nn.ConcatOp, x, y, np.take(x, [1], axis), axis=axis) for axis in range(4)),
        target=target,
    )


@widths
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_gathers(target: str, dtype: type[np.generic]) -> None:
    x = normal(7, 5, 33)
    rng, ops = np.random.default_rng(0), list[OneOp]()
    for axis, extent in enumerate(x.shape):
        indices = rng.integers(-extent, extent, (4, 3)).astype(dtype)
        full = rng.integers(-extent, extent, x.shape).astype(dtype)
        ops += [
            one_op(nn.GatherOp, x, indices, axis=axis),
            one_op(nn.GatherElementsOp, x, full, axis=axis),
        ]
    pairs = np.stack([rng.integers(0, 7, (6,)), rng.integers(-5, 5, (6,))], axis=-1).astype(dtype)
    check_ops(*ops, one_op(nn.GatherNdOp, x, pairs, batch_dims=0), target=target)


@widths
@pytest.mark.parametrize("shape", [(3, 1, 7), (1,), (), (129,), (2, 65)])
def test_broadcasting(target: str, shape: tuple[int, ...]) -> None:
    x = normal(2, 3, 5, 1)[..., : shape[-1] if shape else 1]
    y = normal(*shape)
    if len(shape) <= 1 or shape == (3, 1, 7):
        check_op(nn.AddOp, [normal(2, 3, 5, 1), y], target=target)
    check_op(nn.SubOp, [y, y], target=target)
    check_op(nn.WhereOp, [y > 0, y, y * 2], target=target)
    del x


@widths
def test_integers_and_booleans(target: str) -> None:
    a = np.arange(-40, 41, dtype=np.int64).reshape(9, 9)
    b = a[::-1].copy()
    arithmetic = (nn.AddOp, nn.SubOp, nn.MulOp, nn.MinOp, nn.MaxOp, nn.EqualOp, nn.LessOp)
    p, q = a > 0, b > 3
    check_ops(
        *(one_op(kind, a, b) for kind in arithmetic),
        one_op(nn.DivOp, a, np.where(b % 5 == 0, 0, b)),
        *(one_op(kind, p, q) for kind in (nn.AndOp, nn.OrOp, nn.XorOp, nn.EqualOp)),
        *(
            one_op(nn.CastOp, a, to=element_type(to))
            for to in (np.float32, np.int32, np.bool_, np.int8)
        ),
        *(one_op(nn.CastOp, x, to=element_type(np.int64)) for x in (p, normal(5, 9) * 50)),
        one_op(nn.ReduceMaxOp, a, axes=(1,), keepdims=False),
        target=target,
    )


@widths
def test_doubles(target: str) -> None:
    a = normal(9, 31).astype(np.float64)
    check_ops(
        one_op(nn.MulOp, a, a),
        one_op(nn.MatmulOp, a, a.T.copy(), transpose_b=False),
        one_op(nn.ReduceSumOp, a, axes=(0,), keepdims=False),
        target=target,
        rtol=1e-12,
        atol=1e-12,
    )


@widths
@pytest.mark.parametrize("shape", [(1, 8, 9, 9), (8, 9, 9), (8, 1, 1), (9,), (1, 1, 9, 9)])
def test_constants_beside_channels_last(target: str, shape: tuple[int, ...]) -> None:
    x, w, c = normal(1, 3, 9, 9), normal(8, 3, 3, 3, seed=1), normal(*shape, seed=2)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y = g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], **conv_settings(1, (1,) * 4))
        z = g.op(nn.MulOp, [g.op(nn.SigmoidOp, [y]), g.weight(c, "c")])
        return g.graph(z, g.op(nn.ConcatOp, [z, z], axis=1))

    check(make, {"x": x}, target=target)


@widths
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_reductions_of_booleans(target: str, axes: tuple[int, ...]) -> None:
    check_ops(
        *(
            one_op(
                kind, np.random.default_rng(0).random((9, 37)) < share, axes=axes, keepdims=False
            )
            for share in (0.05, 0.95)
            for kind in (nn.ReduceMaxOp, nn.ReduceMinOp)
        ),
        target=target,
    )


def test_lanes_of_two_widths_in_one_kernel() -> None:
    x = np.arange(20, dtype=np.int64).reshape(5, 4)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        twice = g.op(nn.ConcatOp, [g.inputs["x"], g.inputs["x"]], axis=0)
        return g.graph(g.op(nn.LessOp, [twice, g.weight(np.full((10, 4), 3, np.int64))]))

    check(make, {"x": x})


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 9007199254740993])
def test_large_integers_as_splats(number: int) -> None:
    x = np.array([1, -7, 2**62 + 1], np.int64)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        splat = nn.SplatOp(number, type_of(x))
        g.main.body.block.add_op(splat)
        return g.graph(
            g.op(nn.MaxOp, [g.inputs["x"], splat.res]), g.op(nn.AddOp, [g.inputs["x"], splat.res])
        )

    check(make, {"x": x})
