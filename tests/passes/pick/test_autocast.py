"""Mixed precision by lists of the user and of devices."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.elementwise import OPS
from tessella.driver.compile import compile_source
from tessella.driver.options import Options
from tessella.kernels.devices import DeviceRules, register_rules, registered_rules
from tessella.kernels.registry import Kernel, registered
from tessella.passes.pick.choices import autocast_rows, split_list
from tessella.support.errors import InternalError, OptionError
from tests.native import FixedSource
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import constant_cost, pick
from tests.passes.pick.test_narrowing import BOTH, PRODUCT, network, precisions


def exponentials() -> Graph:
    """The exponential and the tangent of a product, which another product reads."""
    g = GraphBuilder(x=sample(0, 4, 8))
    y = g.op(nn.MatmulOp, [g.inputs["x"], g.weight(sample(1, 8, 8) / 8)], **PRODUCT)
    for name in ("exp", "tanh"):
        y = g.op(OPS[name], [y])
    return g.graph(g.op(nn.MatmulOp, [y, g.weight(sample(2, 8, 3), "v")], **PRODUCT))


def test_lists_of_the_user() -> None:
    graph = network()
    for op in ops(graph):
        op.attributes["node"] = StringAttr(f"node_of_{op.name.removeprefix('nn.')}")
    rows = autocast_rows({"f32": ["nn.conv", "nn.max_pool"], "bf16": ["nn.softmax", "node_of_t*"]})
    picked = pick(graph, *BOTH, strategy="grade", autocast=rows)
    assert precisions(picked) == [
        *((name, "f32") for name in ("mul", "conv")),
        ("relu", "bf16"),
        *((name, "f32") for name in ("max_pool", "conv", "relu", "reduce_mean")),
        *((name, "bf16") for name in ("matmul", "tanh", "softmax")),
    ]
    text = str(graph.module)
    assert text.count('pin = "any/f32/any"') == 3
    # before and after the relu, before the matrix product, and after the softmax
    assert text.count("place.cast") == 4


def test_lists_are_a_permission_of_their_own() -> None:
    rows = autocast_rows({"bf16": ["nn.matmul"]})
    assert precisions(pick(exponentials(), autocast=rows)) == [
        *(("matmul", "bf16"), ("exp", "f32"), ("tanh", "f32"), ("matmul", "bf16"))
    ]


@pytest.mark.parametrize(
    "places, rows, exp, tanh",
    [
        (BOTH, {}, "f32", "bf16"),
        (("x86/f16", "x86"), {}, "f32", "f16"),
        (BOTH, {"bf16": ["nn.exp"]}, "bf16", "bf16"),
        (BOTH, {"bf16": ["nn.exp"], "f32": ["nn.tanh", "nn.exp"]}, "f32", "f32"),
        (("x86/bf16",), {}, "bf16", "bf16"),
        (("x86/f32", "x86"), {}, "f32", "f32"),
    ],
)
def test_the_list_of_a_device(
    places: tuple[str, ...], rows: dict[str, list[str]], exp: str, tanh: str
) -> None:
    picked = pick(exponentials(), *places, strategy="grade", autocast=autocast_rows(rows))
    found = dict(precisions(picked))
    assert (found["exp"], found["tanh"]) == (exp, tanh)
    assert ("pin" in picked[1].attributes) == (exp != tanh or bool(rows))


def test_pins_count_more() -> None:
    pins, rows = ("nn.exp=x86/bf16/nchw",), autocast_rows({"f32": ["nn.exp"]})
    found = dict(precisions(pick(exponentials(), *BOTH, pins=pins, autocast=rows)))
    assert found["exp"] == "bf16"


@pytest.mark.parametrize(
    "pin, place", [("any/any/nhwc", "x86/bf16/nhwc"), ("x86/any/nhwc", "x86/f32/nhwc")]
)
def test_a_pin_to_a_layout_gets_the_precision_of_a_list(pin: str, place: str) -> None:
    rows = autocast_rows({"bf16": ["nn.max_pool"]})
    picked = pick(network(), "x86/f32", pins=(f"nn.max_pool={pin}",), autocast=rows)
    (pool,) = (op for op in picked if isinstance(op, nn.MaxPoolOp))
    assert pool.places is not None
    assert str(pool.places[0]) == place


def test_the_layouts_and_devices_of_places_stay() -> None:
    rows = autocast_rows({"f32": ["nn.max_pool"]})
    for layout in ("nchw", "nhwc"):
        picked = pick(network(), f"x86/bf16/{layout}", f"x86/f32/{layout}", autocast=rows)
        (pool,) = (op for op in picked if isinstance(op, nn.MaxPoolOp))
        assert pool.places is not None
        assert str(pool.places[0]) == f"x86/f32/{layout}"


def test_other_arithmetic_is_left_alone() -> None:
    g = GraphBuilder(x=sample(0, 4, 8).astype(np.float64), i=np.arange(3))
    y = g.op(OPS["exp"], [g.op(nn.GatherOp, list(g.inputs.values()), axis=0)])
    graph = g.graph(y, g.op(OPS["neg"], [g.inputs["i"]]))
    names = ["nn.exp", "nn.gather", "nn.neg"]
    rows = autocast_rows({"f32": names, "bf16": names})
    found = precisions(pick(graph, autocast=rows))
    assert found == [("gather", "f64"), ("exp", "f64"), ("neg", "i64")]


def test_a_plugged_device_has_lists() -> None:
    rules = DeviceRules(autocast={"f32": ["nn.tanh"]})
    kernel = Kernel("far", nn.MatmulOp, "opencl", cost=constant_cost(1.0))
    with registered(kernel), registered_rules("opencl", rules):
        for device, tanh in (("opencl", "f32"), ("x86", "bf16")):
            places = (f"{device}/bf16", f"{device}/f32", *BOTH)
            picked = pick(exponentials(), *places, strategy="grade")
            assert dict(precisions(picked))["tanh"] == tanh
    with pytest.raises(InternalError, match="the device x86 already has rules"):
        register_rules("x86", rules)


def test_a_list_names_what_exists() -> None:
    assert pick(exponentials(), autocast=autocast_rows({"f32": ["nn.softmax"]}))
    with pytest.raises(OptionError, match=r"no op has the name 'nn\.sotfmax'") as caught:
        pick(exponentials(), autocast=autocast_rows({"f32": ["nn.sotfmax"]}))
    assert caught.value.hint == "did you mean 'nn.softmax'?"
    for text in ("f32", "=nn.exp", "f32=", "f32=a,,b"):
        with pytest.raises(OptionError, match="cannot read a list for autocast"):
            split_list(text)


def test_casts_are_explained() -> None:
    arch = targets.native().arch
    options = Options(autocast={"bf16": ["nn.matmul", "nn.tanh"], "f32": ["nn.exp"]})
    model = compile_source(FixedSource(exponentials), options=options)
    explained = model.explain()
    assert [op["storage"] for op in explained.ops] == ["bf16", "f32", "bf16", "bf16"]
    casts = [(c["source"], c["target"]) for c in explained.conversions if c["op"] == "place.cast"]
    narrow, wide = f"{arch}/bf16/nchw", f"{arch}/f32/nchw"
    assert casts == [(wide, narrow), (narrow, wide), (wide, narrow), (narrow, wide)]
    assert f"not exp at {arch}/f32/nhwc" not in explained.why()
    exact = compile_source(FixedSource(exponentials), places="numpy")
    x = sample(0, 4, 8)
    np.testing.assert_allclose(model(x), exact(x), rtol=0.05, atol=0.05)
    assert np.any(model(x) != exact(x))


def test_the_reason_against_other_precisions() -> None:
    arch = targets.native().arch
    places = [f"{arch}/bf16", f"{arch}/f32"]
    model = compile_source(FixedSource(exponentials), places=places, options=Options(pick="grade"))
    (exp,) = (op for op in model.explain().ops if op["op"] == "nn.exp")
    assert f"not exp at {arch}/bf16/any: the op is pinned to any/f32/any" in model.explain().why()
    assert exp["storage"] == "f32"
