"""Costs of kernels and conversions, compared with the tile model's for the same statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from tessella import kernels, targets
from tessella.dialects import nn
from tessella.dialects.layout import NCHW, NHWC, Layout
from tessella.dialects.nn.core import NnOp, tensor
from tessella.dialects.place import CastOp, CopyOp, PlaceAttr, RelayoutOp
from tessella.kernels import cost, host_cost
from tessella.kernels.cost import CALL
from tessella.kernels.registry import HOST_KERNEL, Kernel, kernels_of
from tessella.passes.pick import cost_key, sized_cost
from tessella.passes.pick.kernel_cost import Prices, step_seconds
from tessella.support.decisions import known_all
from tessella.support.sizes import Size, Symbol
from tests.passes.harness import GraphBuilder

MACHINE = targets.get("avx512")
PRICES = Prices(MACHINE)
POINTWISE: dict[str, Any] = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1}
ATTENTION = {"scale": 1.0, "past": 0, "causal": False, "transposed_k": False, "nan_as_zero": False}
WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}


def op(kind: type[NnOp], *shapes: tuple[Size, ...], weights: int = 0, **settings: Any) -> NnOp:
    """An op on tensors of these shapes, the last ``weights`` of which are constants."""
    count = len(shapes) - weights
    g = GraphBuilder(**{f"x{i}": tensor(f32, s) for i, s in enumerate(shapes[:count])})
    constants = [g.weight(np.zeros(known_all(s), np.float32)) for s in shapes[count:]]
    made = g.op(kind, [*g.inputs.values(), *constants], **settings).owner
    assert isinstance(made, NnOp)
    KEPT.append(g)
    return made


KEPT: list[GraphBuilder] = []
"""Values die with the program that they are of."""


def moved(read: int, written: int) -> float:
    """Seconds: what is written beyond the second level comes in before."""
    size = read + written
    lines = written if 2 * size > MACHINE.l2 else 0
    return (size + lines) / (MACHINE.bandwidth(size) * MACHINE.ghz * 1e9)


def native(of: NnOp, layout: Layout) -> Kernel:
    kernels.load()
    named = (k for k in kernels_of(of) if k.runs_on("x86"))
    return next(k for k in named if layout in k.layouts or not k.layouts)


def seconds(of: NnOp, layout: Layout = NCHW) -> float:
    return PRICES.of(of).modelled(native(of, layout), place("x86", layout))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_cost, "_ESTIMATES", {})


@pytest.mark.parametrize("channels", [3, 31, 32, 48, 96, 160, 224, 528, 1000])
@pytest.mark.parametrize("layout", [NCHW, NHWC])
def test_rounded_contractions(
    channels: int, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate for a power of two of summands, times the ratio, is near that of their number."""
    shapes = (1, channels, 28, 28), (64, channels, 1, 1)
    rounded = seconds(op(nn.ConvOp, *shapes, weights=1, **POINTWISE), layout)
    monkeypatch.setattr(cost_key, "LONG", 1 << 40)
    exact = seconds(op(nn.ConvOp, *shapes, weights=1, **POINTWISE), layout)
    assert rounded == pytest.approx(exact, rel=0.35)


@pytest.mark.sweep
@pytest.mark.parametrize("channels", [63, 72, 80, 96, 112, 144, 160, 208, 320, 1000])
@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("kind", [nn.ConvOp, nn.MaxPoolOp])
def test_rounded_channels(
    kind: type[NnOp], layout: Layout, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate for a power of two of channels, times the ratio, is near that of their number."""
    monkeypatch.setattr(cost_key, "LONG", 1 << 40)

    def estimate() -> float:
        if kind is nn.MaxPoolOp:
            shape = (1, channels, 27, 27)
            return seconds(op(kind, shape, **WINDOW, kernel_shape=(3, 3), ceil_mode=False), layout)
        shapes = (1, 96, 27, 27), (channels, 96, 3, 3), (channels,)
        return seconds(op(kind, *shapes, weights=2, **WINDOW, groups=1), layout)

    rounded = estimate()
    monkeypatch.setattr(cost_key, "WIDE", 1 << 40)
    sized_cost._ESTIMATES.clear()
    assert rounded == pytest.approx(estimate(), rel=0.15)


def test_a_map_that_joins_an_aggregation_costs_next_to_nothing() -> None:
    shapes = (1, 96, 27, 27), (40, 96, 3, 3), (40,)
    for layout in (NCHW, NHWC):
        alone = seconds(op(nn.ConvOp, *shapes[:2], weights=1, **WINDOW, groups=1), layout)
        both = seconds(op(nn.ConvOp, *shapes, weights=2, **WINDOW, groups=1), layout)
        assert alone < both < 1.01 * alone


@pytest.mark.parametrize("shape", [(5,), (1, 64, 56, 56), (1, 1000), (3, 7, 11, 13), (2, 96, 111)])
def test_flat_maps(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A map takes as long as its elements, in whatever shape they are."""
    flat = seconds(op(nn.ReluOp, shape))
    monkeypatch.setattr(cost_key, "_flat", lambda key: (key, 1.0))
    sized_cost._ESTIMATES.clear()
    assert flat == pytest.approx(seconds(op(nn.ReluOp, shape)), rel=0.5)


def test_an_estimate_is_made_once_for_ops_of_one_kind() -> None:
    def pointwise(channels: int, weights: int = 1) -> NnOp:
        shapes = (1, channels, 14, 14), (32, channels, 1, 1)
        return op(nn.ConvOp, *shapes, weights=weights, **POINTWISE)

    for channels in (96, 128, 160, 128):
        seconds(pointwise(channels))
    assert len(sized_cost._ESTIMATES) == 1
    seconds(pointwise(128), NHWC)
    assert len(sized_cost._ESTIMATES) == 2
    seconds(pointwise(128, weights=0))
    assert len(sized_cost._ESTIMATES) == 3


def test_a_kernel_that_says_its_cost_is_not_estimated() -> None:
    of = op(nn.ReluOp, (4,))
    kernel = Kernel("mine", nn.ReluOp, "opencl", cost=lambda op, target: 42.0)
    assert PRICES.of(of).modelled(kernel, place("opencl", NCHW)) == 42.0
    assert not sized_cost._ESTIMATES


def test_views_are_free_and_moves_take_their_bytes() -> None:
    assert seconds(op(nn.ReshapeOp, (4, 6), shape=(24,))) == 0.0
    of = op(nn.ConcatOp, (1, 64, 56, 56), (1, 64, 56, 56), axis=1)
    size = 2 * 4 * 64 * 56 * 56
    assert seconds(of) == pytest.approx(cost.CALL + moved(size, size))


def test_numpy_takes_a_call_and_grows_with_the_work() -> None:
    def host(of: NnOp) -> float:
        (kernel,) = (k for k in kernels_of(of) if k.name == HOST_KERNEL)
        return PRICES.of(of).modelled(kernel, place("host", NCHW))

    small, large = (op(nn.MatmulOp, (n, n), (n, n), transpose_b=False) for n in (2, 1024))
    called = (host_cost.START + 2 * host_cost.CALL) / (MACHINE.ghz * 1e9)
    assert host(small) == pytest.approx(called, rel=0.01)
    peak = MACHINE.fma_ports * MACHINE.lanes(32) * MACHINE.ghz * 1e9
    assert host(large) > 1024**3 / peak
    # a generated kernel is there because it is faster
    assert host(large) > seconds(large)


# ** conversions **


def place(target: str, layout: Layout, precision: str = "f32") -> PlaceAttr:
    return PlaceAttr.get(target, precision, layout)


def test_what_stays_in_memory_is_free() -> None:
    value = op(nn.ReluOp, (1, 64, 1, 1)).results[0]
    step = (RelayoutOp, place("x86", NHWC))
    assert step_seconds(step, value, place("x86", NCHW), MACHINE) == 0.0
    image = op(nn.ReluOp, (1, 64, 8, 8)).results[0]
    assert step_seconds(step, image, place("x86", NCHW), MACHINE) > 0.0
    copy = (CopyOp, place("x86", NCHW))
    assert step_seconds(copy, image, place("host", NCHW), MACHINE) == 0.0
    assert step_seconds((CopyOp, place("opencl", NCHW)), image, place("x86", NCHW), MACHINE) > CALL


@pytest.mark.parametrize("sizes", [(1, 16, 8, 8), (1, 64, 56, 56), (8, 256, 112, 112)])
def test_conversions_take_their_bytes_over_the_bandwidth(sizes: tuple[int, ...]) -> None:
    value = op(nn.ReluOp, sizes).results[0]
    size = 4 * int(np.prod(sizes))
    relayout = step_seconds((RelayoutOp, place("x86", NHWC)), value, place("x86", NCHW), MACHINE)
    shuffled = size / 4 * cost.SHUFFLING / (MACHINE.ghz * 1e9)
    assert relayout == pytest.approx(cost.CALL + moved(size, size) + shuffled)
    cast = step_seconds((CastOp, place("x86", NCHW, "f16")), value, place("x86", NCHW), MACHINE)
    assert cast == pytest.approx(cost.CALL + moved(size, size // 2))


def test_a_product_with_one_row_waits_for_its_matrix() -> None:
    """Its arithmetic is too little to hide that. What large matrices take is theirs."""
    one, many = (op(nn.MatmulOp, (m, 1024), (1024, 1024), transpose_b=False) for m in (1, 512))
    reading = cost.moving(4 << 20, 0, MACHINE)
    assert host_cost.host_seconds(one, MACHINE) >= reading
    products = 512 * 1024 * 1024 / (host_cost.PRODUCT_RATE * 32 * MACHINE.ghz * 1e9)
    assert host_cost.host_seconds(many, MACHINE) <= 1.1 * products


@pytest.mark.parametrize(
    "kind, open_, rest, settings",
    [
        (nn.MatmulOp, (64,), [(64, 8)], {"transpose_b": False}),
        (nn.AttentionOp, (16,), [(30, 16), (30, 8)], ATTENTION),
        (nn.ConvOp, (3, 8, 8), [(4, 3, 3, 3)], {**WINDOW, "groups": 1}),
        (nn.MaxPoolOp, (3, 8, 8), [], {**WINDOW, "kernel_shape": (3, 3), "ceil_mode": False}),
    ],
)
def test_numpy_kernels_of_an_open_size_cost_what_they_do_for_the_usual_one(
    kind: type[NnOp], open_: tuple[int, ...], rest: list[tuple[int, ...]], settings: Any
) -> None:
    n = Symbol("n", 1, 64)
    costs = [
        host_cost.host_seconds(op(kind, (size, *open_), *rest, **settings), MACHINE)
        for size in (n.size, n.usual)
    ]
    assert costs[0] == costs[1] > 0
