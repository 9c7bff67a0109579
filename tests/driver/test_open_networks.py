"""Networks that are served with open sizes: caches of a fixed size, graphs, images in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.driver.model.model import Model
from tests.models import run_onnxruntime

Array = np.ndarray[Any, Any]

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
HEADS, DEPTH, VOCABULARY = 4, 16, 50
HIDDEN = HEADS * DEPTH


class Network:
    """A model that is written node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def add(self, kind: str, *operands: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """A node; its first output."""
        made = [*outputs] or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(operands), made, **attributes))
        return made[0]

    def constant(self, array: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        scale = 1 / np.sqrt(shape[-2] if len(shape) > 1 else 1)
        return self.constant(scale * self._random.standard_normal(shape), np.float32)

    def size(self, of: str, axis: int) -> str:
        """A dimension, int64 [1]."""
        start, end = self.constant([axis]), self.constant([axis + 1])
        return self.add("Slice", self.add("Shape", of), start, end)

    def scalar(self, value: str) -> str:
        """A value without its first dimension, which is 1."""
        return self.add("Squeeze", value, self.constant([0]))

    def row(self, of: str, number: int) -> str:
        found = self.add("Slice", of, self.constant([number]), self.constant([number + 1]))
        return self.scalar(found)

    def linear(self, x: str, rows: int, columns: int) -> str:
        return self.add(
            "Add", self.add("MatMul", x, self.weight(rows, columns)), self.weight(columns)
        )

    def model(
        self,
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        outputs: Mapping[str, tuple[int, Sequence[int | str]]],
    ) -> onnx.ModelProto:
        first, last = (
            [helper.make_tensor_value_info(name, *type) for name, type in end.items()]
            for end in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, "network", first, last, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        onnx.checker.check_model(model)
        return model


# ** a cache of a fixed size **


def decoder(rows: int, write: str) -> onnx.ModelProto:
    """A layer of attention over a cache of ``rows`` rows, written at a position by ``Where``,
    ``ScatterElements`` or ``ScatterND``, with a mask from the position."""
    net = Network()
    tokens = net.add("Gather", net.weight(VOCABULARY, HIDDEN), "ids")
    batch, seq = net.size("ids", 0), net.size("ids", 1)
    here = net.add("Range", net.constant(0), net.scalar(seq), net.constant(1))
    positions = net.add("Add", here, "position")  # [seq]
    x = net.add("Add", tokens, net.add("Gather", net.weight(rows, HIDDEN), positions))
    heads = net.add("Concat", batch, seq, net.constant([HEADS]), net.constant([DEPTH]), axis=0)

    def split(value: str) -> str:
        return net.add("Transpose", net.add("Reshape", value, heads), perm=[0, 2, 1, 3])

    q, k, v = (split(net.linear(x, HIDDEN, HIDDEN)) for _ in range(3))
    new_k, new_v = (
        _written(net, write, *pair, positions, rows, name)
        for pair, name in (((("cache_k"), k), "new_k"), (("cache_v", v), "new_v"))
    )
    scores = net.add("MatMul", q, net.add("Transpose", new_k, perm=[0, 1, 3, 2]))
    scores = net.add("Mul", scores, net.constant(DEPTH**-0.5, np.float32))
    columns = net.constant(np.arange(rows))
    seen = net.add("LessOrEqual", columns, net.add("Unsqueeze", positions, net.constant([1])))
    zero, low = net.constant(0, np.float32), net.constant(-1e30, np.float32)
    masked = net.add("Add", scores, net.add("Where", seen, zero, low))
    y = net.add("MatMul", net.add("Softmax", masked, axis=-1), new_v)
    joined = net.add("Concat", batch, seq, net.constant([HIDDEN]), axis=0)
    y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3]), joined)
    y = net.add("Add", x, net.linear(y, HIDDEN, HIDDEN))
    net.add("MatMul", y, net.weight(HIDDEN, VOCABULARY), outputs=["logits"])
    cache = FLOAT, ["batch", HEADS, rows, DEPTH]
    return net.model(
        {
            "ids": (INT64, ["batch", "seq"]),
            "position": (INT64, []),
            "cache_k": cache,
            "cache_v": cache,
        },
        {"logits": (FLOAT, ["batch", "seq", VOCABULARY]), "new_k": cache, "new_v": cache},
    )


def _written(net: Network, how: str, cache: str, new: str, at: str, rows: int, name: str) -> str:
    """The cache [batch, heads, rows, depth] with new rows [batch, heads, seq, depth] at positions
    [seq]."""
    if how == "ScatterND":  # rows first, as its indices count leading dimensions
        first, updates = (net.add("Transpose", x, perm=[2, 0, 1, 3]) for x in (cache, new))
        indices = net.add("Unsqueeze", at, net.constant([1]))
        made = net.add("ScatterND", first, indices, updates)
        return net.add("Transpose", made, perm=[1, 2, 0, 3], outputs=[name])
    if how == "ScatterElements":
        indices = net.add("Unsqueeze", at, net.constant([1]))
        indices = net.add("Expand", indices, net.add("Shape", new))
        return net.add("ScatterElements", cache, indices, new, axis=2, outputs=[name])
    # where: each row of the cache is compared with the position of the one new row
    row = net.add("Unsqueeze", net.constant(np.arange(rows)), net.constant([1]))
    return net.add("Where", net.add("Equal", row, at), new, cache, outputs=[name])


CACHES = {
    "ScatterND": (64, (9, 3, 1)),
    "ScatterElements": (512, (40, 17, 1)),
    "Where": (128, (1, 1)),
}
"""Rows of the cache, and tokens of each call, by how it is written."""


@pytest.mark.parametrize("batch", [2, 17])
@pytest.mark.parametrize("write", CACHES)
def test_caches_of_a_fixed_size(write: str, batch: int, compiled: list[str]) -> None:
    rows, lengths = CACHES[write]
    proto = decoder(rows, write)
    model = tessella.compile(proto, dims={}, threads=1)
    random, position = np.random.default_rng(1), 0
    cache = {f"cache_{x}": np.zeros((batch, HEADS, rows, DEPTH), np.float32) for x in "kv"}
    for seq in (*lengths, 1, 1):
        ids = random.integers(0, VOCABULARY, (batch, seq))
        feeds = {"ids": ids, "position": np.array(position), **cache}
        found, expected = model.run(None, feeds), run_onnxruntime(proto, feeds)
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
        cache = dict(zip(cache, expected[1:], strict=True))
        position += seq
        assert not any(", as " in line for line in model.explain().sizes), model.explain().sizes
    assert len(compiled) == len({(seq > 1) + (seq > 15) for seq in (*lengths, 1)})


# ** a cache that grows **


def grouped_decoder() -> onnx.ModelProto:
    """A layer of attention whose heads share keys in pairs, over a cache that grows, with a mask of
    tokens and a causal one."""
    net, pairs = Network(), HEADS // 2
    x = net.add("Gather", net.weight(VOCABULARY, HIDDEN), "ids")
    batch, seq, past = net.size("ids", 0), net.size("ids", 1), net.size("past", 2)
    total = net.add("Add", past, seq)

    def split(heads: int) -> str:
        rows = net.add("MatMul", x, net.weight(HIDDEN, heads * DEPTH))
        shape = net.add("Concat", batch, seq, net.constant([heads, DEPTH]), axis=0)
        return net.add("Transpose", net.add("Reshape", rows, shape), perm=[0, 2, 1, 3])

    def repeated(value: str) -> str:
        twice = net.add("Concat", batch, net.constant([pairs, 2]), total, depth, axis=0)
        value = net.add("Expand", net.add("Unsqueeze", value, net.constant([2])), twice)
        shape = net.add("Concat", batch, net.constant([HEADS]), total, depth, axis=0)
        return net.add("Reshape", value, shape)

    depth = net.constant([DEPTH])
    q, keys = split(HEADS), net.add("Concat", "past", split(pairs), axis=2, outputs=["present"])
    turned = net.add("Transpose", repeated(keys), perm=[0, 1, 3, 2])
    ends = (net.constant(0), net.scalar(past), net.scalar(total))
    columns, rows = (net.add("Range", i, ends[2], net.constant(1)) for i in ends[:2])
    rows = net.add("Unsqueeze", rows, net.constant([1]))
    causal = net.add("Unsqueeze", net.add("LessOrEqual", columns, rows), net.constant([0, 1]))
    told = net.add("Unsqueeze", net.add("Cast", "mask", to=TensorProto.BOOL), net.constant([1, 2]))
    low = net.constant(-1e9, np.float32)
    scores = net.add("Where", net.add("And", causal, told), net.add("MatMul", q, turned), low)
    made = net.add("MatMul", net.add("Softmax", scores, axis=-1), repeated(keys))
    joined = net.add("Concat", batch, seq, net.constant([HIDDEN]), axis=0)
    made = net.add("Reshape", net.add("Transpose", made, perm=[0, 2, 1, 3]), joined)
    net.add("MatMul", made, net.weight(HIDDEN, VOCABULARY), outputs=["logits"])
    shapes = (["batch", pairs, name, DEPTH] for name in ("past", "past + seq"))
    past_type, present_type = ((FLOAT, shape) for shape in shapes)
    return net.model(
        {
            "ids": (INT64, ["batch", "seq"]),
            "mask": (INT64, ["batch", "past + seq"]),
            "past": past_type,
        },
        {"logits": (FLOAT, ["batch", "seq", VOCABULARY]), "present": present_type},
    )


@pytest.mark.slow
def test_caches_that_grow(compiled: list[str]) -> None:
    proto = grouped_decoder()
    model = tessella.compile(proto, dims={}, threads=1)
    random = np.random.default_rng(1)
    past = np.zeros((2, HEADS // 2, 3, DEPTH), np.float32)
    for seq in (9, 1, 1, 1, 5):
        mask = np.ones((2, past.shape[2] + seq), np.int64)
        mask[0, :2] = 0
        feeds = {"ids": random.integers(0, VOCABULARY, (2, seq)), "mask": mask, "past": past}
        found, expected = model.run(None, feeds), run_onnxruntime(proto, feeds)
        for y, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
        past = expected[1]
        assert not any(", as " in line for line in model.explain().sizes), model.explain().sizes
    assert len(compiled) == 2


# ** graphs **


def graph_network(pool: str) -> onnx.ModelProto:
    """Two rounds of messages along edges: nodes gather their neighbours' values, and add up what
    edges bring (``sum``) or take the mean (``mean``); then the mean over all nodes."""
    net = Network()
    source, target = (net.row("edges", i) for i in (0, 1))
    nodes, edges = net.size("x", 0), net.size("edges", 1)
    x, width = "x", 12
    for _ in range(2):
        sent = net.add("Gather", net.linear(x, width, 32), source)
        sent = net.add("Relu", net.add("Add", sent, net.linear("weights", 3, 32)))
        total = _added(net, sent, target, net.add("Concat", nodes, net.constant([32]), axis=0))
        if pool == "mean":
            one = net.add(
                "Expand",
                net.constant(1, np.float32),
                net.add("Concat", edges, net.constant([1]), axis=0),
            )
            count = _added(net, one, target, net.add("Concat", nodes, net.constant([1]), axis=0))
            total = net.add("Div", total, net.add("Max", count, net.constant(1, np.float32)))
        x, width = net.add("Relu", net.add("Add", net.linear(x, width, 32), total)), 32
    net.add("Identity", x, outputs=["y"])
    mean = net.add("ReduceMean", x, net.constant([0]), keepdims=0)
    net.add("MatMul", mean, net.weight(32, 5), outputs=["scores"])
    return net.model(
        {
            "x": (FLOAT, ["nodes", 12]),
            "edges": (INT64, [2, "edges"]),
            "weights": (FLOAT, ["edges", 3]),
        },
        {"y": (FLOAT, ["nodes", 32]), "scores": (FLOAT, [5])},
    )


def _added(net: Network, values: str, to: str, shape: str) -> str:
    """Rows of values [edges, n] added up by their targets, float32 of a shape [nodes, n]."""
    zeros = net.add("ConstantOfShape", shape)
    indices = net.add("Unsqueeze", to, net.constant([1]))
    return net.add("ScatterND", zeros, indices, values, reduction="add")


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_graph_networks(pool: str, compiled: list[str]) -> None:
    proto = graph_network(pool)
    model = tessella.compile(proto, dims={}, threads=1)
    for nodes, edges in ((20, 50), (16, 300), (200, 16), (3000, 10000)):
        random = np.random.default_rng(nodes)
        feeds = {
            "x": random.standard_normal((nodes, 12), np.float32),
            "edges": random.integers(0, nodes, (2, edges)),
            "weights": random.standard_normal((edges, 3), np.float32),
        }
        for y, wanted in zip(model.run(None, feeds), run_onnxruntime(proto, feeds), strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    assert len(compiled) == 1
    assert model.explain().sizes == ["nodes: open, from 16", "edges: open, from 16"]
    alone = tessella.compile(proto, threads=1)
    alone.run(None, feeds)
    assert on_host(model) == on_host(alone)


def on_host(model: Model) -> list[str]:
    """The ops that run in NumPy."""
    return [str(entry["op"]) for entry in model.explain().ops if entry["kernel"] == "host"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_equal_elements_of_an_open_shape(dtype: Any) -> None:
    """No weight has them: they are written for the sizes of the call."""
    net, element = Network(), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    one = numpy_helper.from_array(np.ones(1, dtype))
    net.add("ConstantOfShape", net.add("Shape", "x"), outputs=["y"], value=one)
    proto = net.model({"x": (FLOAT, ["n", 3])}, {"y": (element, ["n", 3])})
    model = tessella.compile(proto, dims={})
    for count in (2, 15, 40):
        found = model(np.zeros((count, 3), np.float32))
        np.testing.assert_array_equal(found, np.ones((count, 3), dtype), strict=True)
        [told] = model.explain().sizes
        assert told.startswith("n: open")
