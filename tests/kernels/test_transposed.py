"""The kernels of transposed convolutions against NumPy and ONNX Runtime, on odd sizes, for every
vector width that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.model.model import Model
from tessella.kernels.transposed import MAX_STRIDE, grouped, residues
from tests.dialects.oracle import runtime
from tests.native import EVERYWHERE, Array, GraphBuilder, check, check_op, normal
from tests.sampling import sample, sampled

Shape = tuple[int, ...]
Ints = int | Shape

widths = pytest.mark.parametrize("target", EVERYWHERE)

CASES: dict[str, tuple[Shape, Shape, dict[str, Ints]]] = {
    "even": ((1, 20, 7, 9), (20, 35, 4, 4), {"strides": 2, "pads": 1}),
    "odd": ((2, 9, 5, 4), (9, 19, 3, 3), {"strides": 2, "pads": 1, "output_pads": 1}),
    "stride 1": ((1, 5, 6, 7), (5, 17, 3, 5), {"pads": (1, 2, 0, 3)}),
    "stride of the kernel's size": ((1, 7, 5, 9), (7, 33, 2, 2), {"strides": 2}),
    "stride over the kernel's size": ((1, 7, 5, 4), (7, 18, 2, 1), {"strides": (5, 3)}),
    "many residues": ((1, 5, 4, 3), (5, 21, 16, 16), {"strides": 8, "pads": 4}),
    "dilated": ((1, 4, 9, 8), (4, 16, 3, 2), {"dilations": (2, 3), "pads": 1}),
    "dilation and stride alike": ((1, 4, 5, 6), (4, 16, 3, 3), {"dilations": 2, "strides": 2}),
    "dilation and stride with a common factor": (
        (1, 4, 5, 6), (4, 16, 3, 2), {"dilations": 4, "strides": 6, "pads": 2},
    ),
    "dilation over stride": ((1, 4, 5, 6), (4, 16, 4, 3), {"dilations": 3, "strides": 2}),
    "pads over the kernel's size": ((1, 3, 8, 7), (3, 16, 3, 2), {"strides": 3, "pads": 5}),
    "a kernel over the input's size": ((1, 3, 2, 3), (3, 16, 7, 5), {"strides": 2, "pads": 3}),
    "outputs that nothing reaches": ((1, 3, 4, 5), (3, 16, 2, 2), {"output_pads": 4, "strides": 5}),
    "each dimension its own": (
        (2, 3, 4, 7), (3, 17, 4, 3),
        {"strides": (3, 1), "dilations": (1, 2), "pads": (0, 3, 1, 2), "output_pads": (2, 0)},
    ),
    "one element": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    "one channel": ((1, 19, 6, 5), (19, 1, 4, 4), {"strides": 2, "pads": 1}),
    "few channels": ((1, 33, 9, 5), (33, 3, 5, 5), {"strides": 2, "pads": 2, "output_pads": 1}),
    "groups": ((1, 6, 7, 5), (6, 17, 3, 3), {"strides": 2, "pads": 1, "groups": 2}),
    "groups of few channels": ((2, 9, 6, 5), (9, 2, 3, 3), {"strides": 2, "groups": 3}),
    "depthwise": ((1, 37, 9, 7), (37, 1, 4, 4), {"strides": 2, "pads": 1, "groups": 37}),
    "1-D": ((1, 6, 13), (6, 24, 16), {"strides": 8, "pads": 4}),
    "3-D": ((1, 4, 3, 4, 5), (4, 16, 3, 3, 3), {"strides": 2, "pads": 1, "output_pads": 1}),
}  # fmt: skip


def options(rank: int, **given: Ints) -> dict[str, Any]:
    """The op's settings: a number holds for every dimension."""
    lengths = {"strides": rank, "pads": 2 * rank, "dilations": rank, "output_pads": rank}
    found: dict[str, Any] = {"groups": given.get("groups", 1)}
    for name, length in lengths.items():
        value = given.get(name, int(name in ("strides", "dilations")))
        found[name] = (value,) * length if isinstance(value, int) else value
    return found


def picked(model: Model) -> str:
    return model.explain().ops[0]["kernel"]


def operands(x: Shape, w: Shape, groups: int, dtype: Any = np.float32) -> list[Array]:
    """The input, the weights, and a bias."""
    shapes = (x, w, (w[1] * groups,))
    return [(4 * normal(*shape, seed=i)).astype(dtype) for i, shape in enumerate(shapes)]


def compare(
    x: Shape,
    w: Shape,
    given: dict[str, Ints],
    *,
    target: str | None = None,
    bias: bool = True,
    constants: Sequence[int] = (1, 2),
) -> Model:
    """`check_op`, and the same against ONNX Runtime."""
    settings = options(len(x) - 2, **given)
    values = operands(x, w, settings["groups"])[: 2 + bias]
    constants = [i for i in constants if i < len(values)]
    model = check_op(
        nn.ConvTransposeOp, values, constants=constants, target=target, atol=1e-4, **settings
    )
    feeds = {f"x{i}": a for i, a in enumerate(values) if i not in constants}
    renamed = {"output_pads": "output_padding", "groups": "group"}
    theirs = {renamed.get(name, name): value for name, value in settings.items()}
    (found,), (wanted,) = model.run(None, feeds), runtime("ConvTranspose", *values, **theirs)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    return model


@pytest.mark.sweep
@widths
@pytest.mark.parametrize("name", sample([*CASES]))
def test_settings(name: str, target: str) -> None:
    compare(*CASES[name], target=target)


@widths
@settings(
    max_examples=sampled(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_random_settings(target: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))

    def ints(least: int, most: int, count: int = rank) -> Shape:
        return tuple(data.draw(st.integers(least, most)) for _ in range(count))

    groups = data.draw(st.sampled_from([1, 1, 2]))
    per_in, per_out = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([1, 3, 17, 33]))
    strides, sizes, kernel = ints(1, 4), ints(4, 9), ints(1, 5)
    output_pads = tuple(data.draw(st.integers(0, s - 1)) for s in strides)
    compare(
        (data.draw(st.integers(1, 2)), groups * per_in, *sizes),
        (groups * per_in, per_out, *kernel),
        {
            "strides": strides, "pads": ints(0, 1, 2 * rank), "dilations": ints(1, 3),
            "output_pads": output_pads, "groups": groups,
        },
        target=target,
        bias=data.draw(st.booleans()),
        constants=data.draw(st.sampled_from([(), (1,), (1, 2)])),
    )  # fmt: skip


@pytest.mark.parametrize("name", sample(["even", "few channels", "depthwise", "groups", "1-D"]))
def test_variable_weights(name: str) -> None:
    compare(*CASES[name], constants=())


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("name", ["odd", "few channels", "stride over the kernel's size"])
def test_other_elements(name: str, dtype: Any) -> None:
    x, w, given = CASES[name]
    settings = options(len(x) - 2, **given)
    values = operands(x, w, settings["groups"], dtype)
    check_op(nn.ConvTransposeOp, values, constants=[1, 2], rtol=1e-12, atol=1e-12, **settings)


@pytest.mark.parametrize(
    "name, kernel",
    [("even", "conv_transpose"), ("few channels", "col2im"), ("depthwise", "conv_transpose")],
)
def test_picked_kernel(name: str, kernel: str) -> None:
    assert picked(compare(*CASES[name], target="avx2")) == kernel


@widths
@pytest.mark.parametrize("outs", [3, 20])
def test_maps_after_it(outs: int, target: str) -> None:
    x, w, b = operands((1, 5, 6, 7), (5, outs, 3, 3), 1)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y, z = (
            g.op(nn.ConvTransposeOp, [g.inputs["x"], g.weight(w), *bias], **options(2, strides=2))
            for bias in ([g.weight(b, "b")], [])
        )
        return g.graph(g.op(nn.ReluOp, [g.op(nn.MulOp, [y, g.op(nn.TanhOp, [z])])]))

    model = check(make, {"x": x}, target=target, atol=1e-4)
    first, *others = (entry["group"] for entry in model.explain().ops)
    assert first not in others
    assert len(others) == 4
    assert len(set(others)) == 1


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"strides": (MAX_STRIDE + 1, 1, 1)}, f"for stride {MAX_STRIDE + 1}"),
        ({"strides": 7, "dilations": 5}, "phases are more than"),
    ],
)
def test_limits(given: dict[str, Ints], reason: str) -> None:
    values = operands((1, 1, 2, 2, 2), (1, 1, 3, 3, 3), 1)
    model = check_op(nn.ConvTransposeOp, values, native=False, **options(3, **given))
    (entry,) = model.explain().ops
    assert entry["kernel"] == "host"
    assert any(reason in rejected["reason"] for rejected in entry["rejected"])


def test_phases_are_the_definition() -> None:
    """Each output takes the elements that are spread to it, each once."""
    for stride, dilation, pad, taps, size in product(
        range(1, 8), range(1, 7), range(4), range(1, 5), (1, 4)
    ):
        extent = (size - 1) * stride + (taps - 1) * dilation + 1 - pad
        if extent < 1:
            continue
        spread = {
            (q * stride + i * dilation - pad, q, i)
            for q, i in product(range(size), range(taps))
            if 0 <= q * stride + i * dilation - pad < extent
        }
        common = np.gcd(stride, dilation)
        listed = list(residues(stride, dilation, pad, taps, extent))
        gathered = [
            (stride * u + r.position, u + r.shift + k * dilation // common,
             r.tap - k * stride // common)
            for r in listed for u, k in product(range(r.extent), range(r.taps))
        ]  # fmt: skip
        inside = [at for at in gathered if 0 <= at[1] < size]
        assert len(inside) == len(spread)
        assert set(inside) == spread
        groups = grouped(iter(listed))
        assert sorted(r.position for group in groups for r in group) == [r.position for r in listed]
        for group in groups:
            assert len({r.reading for r in group}) == 1
            assert len({a.distance(b) for a, b in pairwise(group)}) <= 1
