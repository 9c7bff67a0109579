"""ONNX's Scan, against ONNX Runtime: interpreted, in native code, and with a body in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tessella
from tessella import kernels
from tessella.frontends.onnx import OnnxSource
from tessella.kernels import registry
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.models import Array, run
from tests.generators.scans import SIZE, body, make, scan
from tests.models import run_onnxruntime


def compare(proto: onnx.ModelProto, feeds: dict[str, Array]) -> tessella.Model:
    """Interpreted and compiled, against ONNX Runtime."""
    compiled = tessella.compile(proto)
    expected = run_onnxruntime(proto, feeds)
    for found in (run(proto, feeds), compiled.run(None, feeds)):
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6, strict=True)
    return compiled


@pytest.fixture(autouse=True)
def sorts_in_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`nn.topk` has its NumPy kernel alone. Programs that others have kept are not read."""
    monkeypatch.setenv("TESSELLA_CACHE_DIR", str(tmp_path))
    kernels.load()
    monkeypatch.setitem(registry._KERNELS, "nn.topk", [])


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


def test_a_splat_is_the_first_value() -> None:
    """It is one element in memory, which native code in the body would read more of."""
    proto, feeds = scan(body([*SORTED, *make(("Neg", "k0", "y0"))], 1, 1, 1), 4)
    del proto.graph.input[0], feeds["h0"]
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(SIZE, np.float32), "h0"))
    compare(proto, feeds)


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


def test_no_steps() -> None:
    """Carried values keep their initial values; ONNX Runtime crashes."""
    graph = body([*SUMS, *make(("Neg", "k0", "y0"))], 1, 1, 1)
    proto, feeds = scan(graph, 0, scan_output_axes=[1])
    for state, empty in (run(proto, feeds), tessella.compile(proto).run(None, feeds)):
        np.testing.assert_array_equal(state, feeds["h0"])
        assert (empty.shape, empty.dtype) == ((SIZE, 0), np.float32)


def test_what_is_wrong_is_said() -> None:
    def graph(proto: onnx.ModelProto) -> None:
        source = OnnxSource(proto)
        source.graph({info.name: tuple(map(int, info.shape)) for info in source.inputs})

    wider = [*make(("Concat", "h0 x0", "k0"), axis=0), *make(("Neg", "x0", "y0"))]
    proto, _ = scan(body(wider, 1, 1, 1), 4)
    with pytest.raises(ShapeError, match="changes its type"):
        graph(proto)
    norm = make(("LpNormalization", "k0", "y0"), p=3)
    unknown = [*make(("Add", "h0 x0", "k0")), *norm]
    with pytest.raises(UnsupportedError, match="p=3"):
        graph(scan(body(unknown, 1, 1, 1), 4)[0])
