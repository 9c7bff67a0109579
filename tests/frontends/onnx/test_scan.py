"""ONNX's Scan, against ONNX Runtime: interpreted, in native code, and with a body in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import tessella
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.models import Array, model, run, value
from tests.models import run_onnxruntime
from tests.sampling import sampled

SIZE = 3
OUTER = np.array([0.5, 1, 2], np.float32)


def make(*nodes: tuple[Any, ...], **attributes: Any) -> list[onnx.NodeProto]:
    """Nodes from op, inputs and outputs."""
    return [
        helper.make_node(op, inputs.split(), outputs.split(), **attributes)
        for op, inputs, outputs in nodes
    ]


def body(nodes: Sequence[onnx.NodeProto], carried: int, scanned: int, returned: int) -> Any:
    """A graph from h0.. and x0.. to k0.. and y0.., of vectors."""
    names = (("h", carried), ("x", scanned)), (("k", carried), ("y", returned))
    inputs, outputs = (
        [value(f"{name}{i}", [SIZE]) for name, count in side for i in range(count)]
        for side in names
    )
    three = numpy_helper.from_array(np.array([SIZE], np.int64), "three")
    return helper.make_graph(list(nodes), "body", inputs, outputs, [three])


def scan(graph: Any, steps: int, **attributes: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model with a Scan of this body, and inputs for it."""
    scanned = sum(info.name.startswith("x") for info in graph.input)
    carried = len(graph.input) - scanned
    returned = len(graph.output) - carried
    axes = attributes.get("scan_input_axes", [0] * scanned)
    shapes = {f"h{i}": (SIZE,) for i in range(carried)}
    shapes |= {f"x{i}": (SIZE, steps) if axis else (steps, SIZE) for i, axis in enumerate(axes)}
    outputs = [*(f"t{i}" for i in range(carried)), *(f"ys{i}" for i in range(returned))]
    node = helper.make_node(
        "Scan",
        list(shapes),
        outputs,
        name="loop",
        body=graph,
        num_scan_inputs=scanned,
        **attributes,
    )
    shapes["dynamic"] = (SIZE,)
    proto = model(
        [*make(("Abs", "dynamic", "outer")), node],
        [value(name, shape) for name, shape in shapes.items()],
        [value(name, [None] * (1 if name[0] == "t" else 2)) for name in outputs],
        weights={"weight": OUTER},
        opset=17,
    )
    rng = np.random.default_rng(0)
    return proto, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def compare(proto: onnx.ModelProto, feeds: dict[str, Array]) -> tessella.Model:
    """Interpreted and compiled, against ONNX Runtime."""
    compiled = tessella.compile(proto)
    expected = run_onnxruntime(proto, feeds)
    for found in (run(proto, feeds), compiled.run(None, feeds)):
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6, strict=True)
    return compiled


SUMS = make(
    ("Add", "h0 x0", "s"), ("Mul", "s weight", "m"), ("Tanh", "m", "t"), ("Sub", "t outer", "k0")
)
SORTED = [*SUMS[:3], *make(("TopK", "t three", "v i"), ("Add", "v outer", "k0"))]


@pytest.mark.parametrize("nodes, kernel", [(SUMS, "loop"), (SORTED, "host")])
@pytest.mark.parametrize("steps", [1, 4, 5])
def test_outer_values_and_fallback(
    nodes: Sequence[onnx.NodeProto], kernel: str, steps: int
) -> None:
    graph = body([*nodes, *make(("Neg", "k0", "y0"))], 1, 1, 1)
    compiled = compare(*scan(graph, steps))
    entry = next(entry for entry in compiled.explain().ops if entry["op"] == "nn.scan")
    assert (entry["kernel"], entry["node"]) == (kernel, "loop")


def test_a_program_with_a_loop_in_numpy_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE_DIR", str(tmp_path))
    proto, feeds = scan(body([*SORTED, *make(("Neg", "k0", "y0"))], 1, 1, 1), 4)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    first, again = (tessella.compile(path).run(None, feeds) for _ in range(2))
    for y, wanted in zip(again, first, strict=True):
        np.testing.assert_array_equal(y, wanted)


def test_a_loop_in_a_loop() -> None:
    inner = body(
        make(("Add", "h0 x0", "a"), ("Sin", "a", "k0"), ("Mul", "k0 outer", "y0")), 1, 1, 1
    )
    node = helper.make_node(
        "Scan", ["h0", "all"], ["k0", "ys"], body=inner, num_scan_inputs=1, name="inner"
    )
    nodes = [
        *make(("Identity", "rows", "all")),
        node,
        *make(("ReduceMax", "ys", "top"), keepdims=0),
        *make(("Mul", "x0 top", "y0")),
    ]
    proto, feeds = scan(body(nodes, 1, 1, 1), 4)
    rows = helper.make_node("Concat", ["x0", "x0"], ["rows"], axis=0)
    proto.graph.node.insert(0, rows)
    compare(proto, feeds)


OPS = ("Add", "Sub", "Mul", "Max", "Min")


@st.composite
def loops(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, Array]]:
    carried, scanned, returned = draw(st.integers(0, 3)), draw(st.integers(1, 3)), 0
    values = [*(f"h{i}" for i in range(carried)), *(f"x{i}" for i in range(scanned))]
    values += ["weight", "outer"]
    nodes: list[tuple[str, str, str]] = []
    for i in range(draw(st.integers(1, 6))):
        pair = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        nodes.append((draw(st.sampled_from(OPS)), " ".join(pair), f"v{i}"))
        nodes.append(("Tanh", f"v{i}", f"w{i}"))
        values.append(f"w{i}")
    returned = draw(st.integers(0 if carried else 1, 3))
    names = [*(f"k{i}" for i in range(carried)), *(f"y{i}" for i in range(returned))]
    nodes += [("Identity", draw(st.sampled_from(values)), name) for name in names]
    bits = st.integers(0, 1)
    attributes = {
        f"scan_{side}_{what}": draw(st.lists(bits, min_size=count, max_size=count))
        for side, count in (("input", scanned), ("output", returned))
        for what in ("axes", "directions")
        if count
    }
    graph = body(make(*nodes), carried, scanned, returned)
    return scan(graph, draw(st.integers(1, 6)), **attributes)


@given(loops())
@settings(max_examples=sampled(40), deadline=None)
def test_random_loops(case: tuple[onnx.ModelProto, dict[str, Array]]) -> None:
    compare(*case)


def test_what_is_wrong_is_said() -> None:
    def graph(proto: onnx.ModelProto) -> None:
        source = OnnxSource(proto)
        source.graph({info.name: tuple(map(int, info.shape)) for info in source.inputs})

    wider = [*make(("Concat", "h0 x0", "k0"), axis=0), *make(("Neg", "x0", "y0"))]
    proto, _ = scan(body(wider, 1, 1, 1), 4)
    with pytest.raises(ShapeError, match="changes its type"):
        graph(proto)
    unknown = [*make(("Add", "h0 x0", "k0"), ("Unique", "k0", "y0"))]
    with pytest.raises(UnsupportedError, match="Unique"):
        graph(scan(body(unknown, 1, 1, 1), 4)[0])
