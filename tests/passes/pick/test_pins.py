"""Pins of ops, and switches of kernels."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute

from tessella import kernels
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.kernels import registry
from tessella.kernels.elements import rows
from tessella.kernels.registry import CPU, Kernel
from tessella.passes.pick.switches import parse_switches
from tessella.support.errors import OptionError, UnsupportedError
from tests.passes.harness import GraphBuilder, apply, ops, sample
from tests.passes.pick.programs import POINTWISE, constant_cost, convolution, pick

CONV = nn.ConvOp.name


def the_conv(picked: list[NnOp]) -> tuple[str | None, str]:
    """The kernel of the convolution, and the place of its result."""
    (conv,) = (op for op in picked if isinstance(op, nn.ConvOp))
    assert conv.places is not None
    return conv.kernel, str(conv.places[-1])


def named(graph: Graph) -> Graph:
    """The graph, with a name for the node of each op."""
    for op in ops(graph):
        op.attributes["node"] = StringAttr(f"node_of_{op.name.removeprefix('nn.')}")
    return graph


@pytest.mark.parametrize("name", [CONV, "node_of_conv", "node_of_c*"])
@pytest.mark.parametrize(
    "pin, expected",
    [
        ("x86/f32/nchw", ("conv", "x86/f32/nchw")),
        ("x86/f32/nhwc,kernel=conv", ("conv", "x86/f32/nhwc")),
        ("x86/f16/nchw", ("conv", "x86/f16/nchw")),
        ("host", ("host", "host/f32/nchw")),
        ("kernel=host", ("host", "host/f32/nchw")),
    ],
)
def test_a_pin_decides(name: str, pin: str, expected: tuple[str, str]) -> None:
    picked = pick(named(convolution()), pins=(f"{name}={pin}",))
    assert the_conv(picked) == expected


def test_the_last_pin_of_an_op_counts() -> None:
    pins = (f"{CONV}=host", "node_of_*=x86/f32/nchw")
    assert the_conv(pick(named(convolution()), pins=pins)) == ("conv", "x86/f32/nchw")
    assert the_conv(pick(named(convolution()), pins=pins[::-1])) == ("host", "host/f32/nchw")


def test_a_pin_is_in_the_ir() -> None:
    graph = convolution()
    conv = next(op for op in ops(graph) if op.name == CONV)
    conv.attributes["pin"] = StringAttr("x86/f32/nchw")
    (picked,) = (op for op in pick(graph) if op.name == CONV)
    assert the_conv([picked]) == ("conv", "x86/f32/nchw")
    assert 'pin = "x86/f32/nchw"' in str(picked)


def layer(**attributes: Attribute) -> Graph:
    """A matrix product and a sum, with attributes of the product."""
    g = GraphBuilder(x=sample(0, 4, 8), b=sample(1, 16))
    w = g.weight(sample(2, 8, 16))
    product = g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=False)
    assert isinstance(product.owner, NnOp)
    product.owner.attributes |= attributes
    return g.graph(g.op(nn.AddOp, [product, g.inputs["b"]]))


def test_ops_with_pins_in_the_ir_are_not_fused() -> None:
    assert [op.name for op in fused(layer())] == ["nn.fc"]
    product, _ = fused(layer(pin=StringAttr("host")))
    assert (product.name, product.kernel) == ("nn.matmul", "host")


def fused(graph: Graph) -> list[NnOp]:
    """The ops after the passes up to the pick of kernels."""
    steps = list(pipeline(make_options(target="avx2"))[0][1])
    last = next(i for i, step in enumerate(steps) if step.name == "pick-kernels")
    return [op for op in ops(apply(graph, *steps[: last + 1])) if op.kernel is not None]


@pytest.mark.parametrize(
    "pin, reason",
    [
        (IntegerAttr(3, 64), "a pin is a text"),
        (StringAttr(""), "cannot read a pin"),
        (StringAttr("x86/f31"), "unknown part 'f31'"),
        (StringAttr("kernel=matmul,kernel=host"), "cannot read a pin"),
    ],
)
def test_a_pin_in_the_ir_that_cannot_be_read(pin: Attribute, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        pick(layer(pin=pin))
    assert caught.value.where == "the pin of node 'nn.matmul'"


def test_a_kernel_and_a_pin_that_are_in_the_ir() -> None:
    def picked(pin: str) -> str | None:
        graph = layer(pin=StringAttr(pin))
        product = next(op for op in ops(graph) if op.name == "nn.matmul")
        product.picked_kernel = StringAttr("host")
        return next(op.kernel for op in pick(graph) if op.name == "nn.matmul")

    assert picked("host") == "host"
    with pytest.raises(UnsupportedError, match="the pin 'x86/any/any,kernel=host' leaves no"):
        picked("x86")
    with pytest.raises(OptionError, match="names a kernel and is pinned to another one"):
        picked("kernel=matmul")


def test_a_kernel_that_is_in_the_ir_stays() -> None:
    graph = convolution()
    conv = next(op for op in ops(graph) if isinstance(op, nn.ConvOp))
    conv.picked_kernel = StringAttr("host")
    assert the_conv(pick(graph)) == ("host", "host/f32/nchw")


@pytest.mark.parametrize(
    "pin, hint",
    [
        ("node_of_cinv=host", "did you mean 'node_of_conv'"),
        (f"{CONV}=kernel=cinv", "did you mean 'conv'"),
    ],
)
def test_a_pin_names_what_exists(pin: str, hint: str) -> None:
    with pytest.raises(OptionError) as caught:
        pick(named(convolution()), pins=(pin,))
    assert hint in str(caught.value)


@pytest.mark.parametrize("pin", ["host", "=host", f"{CONV}=", f"{CONV}=x86//", "a=x86/f31"])
def test_a_pin_that_cannot_be_read(pin: str) -> None:
    with pytest.raises(OptionError, match=r"cannot read a pin|unknown part") as caught:
        pick(named(convolution()), pins=(pin,))
    assert repr(pin) in str(caught.value)


@pytest.mark.parametrize("pin", ["kernel=winograd4", "x86/f32/nhwc,kernel=host", "host/f16/any"])
def test_a_pin_that_leaves_no_kernel_is_named(pin: str) -> None:
    with pytest.raises(UnsupportedError, match=f"the pin '{pin}' leaves no kernel"):
        pick(named(convolution()), pins=(f"{CONV}={pin}",))


def test_kernels_for_any_layout_are_pinned_to_layouts_that_they_can_read() -> None:
    """Three channels do not fall into blocks of 8 where a tensor is repeated along them."""
    for channels, repeats in ((8, (2, 1, 1, 1)), (3, (1, 2, 1, 1))):
        g = GraphBuilder(x=sample(0, 1, channels, 4, 4))
        graph = g.graph(g.op(nn.TileOp, [g.inputs["x"]], repeats=repeats))
        if channels == 8:
            (op,) = pick(graph, pins=("nn.tile=x86/f32/nchw8c",))
            assert op.places is not None
            assert str(op.places[-1]) == "x86/f32/nchw8c"
        else:
            with pytest.raises(UnsupportedError, match="the pin 'x86/f32/nchw8c' leaves no kernel"):
                pick(graph, pins=("nn.tile=x86/f32/nchw8c",))


def test_a_fallback_that_a_pin_requests_is_no_error() -> None:
    g = GraphBuilder(x=sample(0, 1, 8, 8, 8))
    w = g.weight(sample(1, 8, 8, 1, 1))
    graph = g.graph(g.op(nn.ConvOp, [g.inputs["x"], w], **POINTWISE))
    picked = pick(graph, "x86/f32/nhwc", fallback="error", pins=(f"{CONV}=host",))
    assert the_conv(picked) == ("host", "host/f32/nchw")


def two_libraries(reason: str | None = None) -> list[Kernel]:
    """A cheap and an expensive kernel for convolutions. They do not apply, for the reason."""

    def applies(op: Any) -> str | None:
        return reason

    return [
        Kernel(
            name,
            nn.ConvOp,
            CPU,
            (NCHW,),
            rows(["f32"]),
            applies,
            constant_cost(seconds),
            method=method,
        )
        for name, method, seconds in [("quick", "first", 1e-12), ("slow", "second", 1.0)]
    ]


@pytest.mark.parametrize(
    "switches, expected",
    [
        ("", "quick"),
        ("-quick", "conv"),
        ("-first", "conv"),
        ("+slow", "slow"),
        ("+second", "slow"),
        ("+second,+first", "slow"),
        ("+first,+second", "quick"),
        ("-slow,+second", "quick"),
    ],
)
def test_kernels_are_switched(switches: str, expected: str) -> None:
    kernels.load()
    with registry.registered(*two_libraries()):
        kernel, _ = the_conv(pick(convolution(), "x86/f32/nchw", kernels=switches))
    assert kernel == expected


def test_another_kernel_runs_where_the_preferred_one_does_not_apply() -> None:
    kernels.load()
    with registry.registered(*two_libraries("the weights are too few")):
        kernel, _ = the_conv(pick(convolution(), "x86/f32/nchw", kernels="+second"))
    assert kernel == "conv"


@pytest.mark.parametrize("text", ["-winogrod", "-host", "+", "+winograd,-zzz"])
def test_switches_of_unknown_kernels(text: str) -> None:
    kernels.load()
    with pytest.raises(OptionError, match="no kernel that can be switched has the name"):
        parse_switches(text)


@pytest.mark.parametrize("text", ["winograd", "-winograd,conv"])
def test_switches_that_cannot_be_read(text: str) -> None:
    kernels.load()
    with pytest.raises(OptionError, match="cannot read the switch"):
        parse_switches(text)


def test_a_kernel_that_is_off_is_not_preferred() -> None:
    kernels.load()
    with pytest.raises(OptionError, match="the kernels 'conv' are both off and preferred"):
        parse_switches("-conv,+winograd,+conv")
