"""Products and convolutions for AArch64 keep in registers what their tiles hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.assembly import spills
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.build.build import as_text, lower
from tessella.driver.options import Options, make_options
from tests.models import load_model, lowered_for
from tests.native import GraphBuilder, normal

DENSE = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}


def product(m: int, n: int, k: int) -> Graph:
    g = GraphBuilder(x=normal(m, k))
    return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], g.weight(normal(k, n))], transpose_b=False))


def convolution(channels: int, filters: int, size: int, image: int) -> Graph:
    """Return a convolution whose kernel has a sum and an activation."""
    g = GraphBuilder(x=normal(1, channels, image, image), r=normal(1, filters, image, image))
    w = g.weight(normal(filters, channels, size, size))
    settings = {**DENSE, "pads": (size // 2,) * 4}
    a = g.op(nn.ConvOp, [g.inputs["x"], w], **settings)
    return g.graph(g.op(nn.ReluOp, [g.op(nn.AddOp, [a, g.inputs["r"]])]))


def block(channels: int, expanded: int, image: int) -> Graph:
    """Return a block of MobileNet: a depthwise convolution between two of 1x1."""
    g = GraphBuilder(x=normal(1, channels, image, image))
    inner = {**DENSE, "pads": (0,) * 4}
    a = g.op(nn.ConvOp, [g.inputs["x"], g.weight(normal(expanded, channels, 1, 1))], **inner)
    w = g.weight(normal(expanded, 1, 3, 3))
    b = g.op(nn.ReluOp, [g.op(nn.ConvOp, [a, w], **{**DENSE, "groups": expanded})])
    return g.graph(g.op(nn.ConvOp, [b, g.weight(normal(channels, expanded, 1, 1))], **inner))


CASES: dict[str, Callable[[], Graph]] = {
    "product": lambda: product(128, 96, 64),
    "long product": lambda: product(49, 512, 2048),
    "row": lambda: product(1, 1000, 512),
    "few channels": lambda: convolution(16, 16, 1, 112),
    "1x1": lambda: convolution(64, 256, 1, 28),
    "3x3": lambda: convolution(64, 64, 3, 28),
    "5x5": lambda: convolution(24, 48, 5, 14),
    "depthwise": lambda: block(160, 960, 7),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_no_register_is_spilled(name: str) -> None:
    lowered = lower(
        CASES[name](), make_options(target="neon", options=Options(kernels="-winograd"))
    )
    found = spills(as_text(lowered, "asm"))
    assert found
    assert {kernel: each.registers for kernel, each in found.items() if each.registers} == {}


@pytest.mark.parametrize("target", ["neon", "avx2"])
@pytest.mark.parametrize("channels, image", [(192, 7), (64, 13)])
def test_transforms_whose_last_tiles_lie_beyond_the_image(
    channels: int, image: int, target: str
) -> None:
    lowered = lower(convolution(channels, channels, 3, image), make_options(target=target))
    found = spills(as_text(lowered, "asm"))
    assert any("winograd" in kernel for kernel in found)
    assert {kernel: each.registers for kernel, each in found.items() if each.registers} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeezenet", "mobilenet_opset11", "resnet50", "vgg19", "mobilenet_v3", "vit", "gpt2"]
)
def test_no_register_is_spilled_in_networks(name: str) -> None:
    found = spills(as_text(lowered_for(load_model(name), "neon"), "asm"))
    assert {kernel: each.registers for kernel, each in found.items() if each.registers} == {}
