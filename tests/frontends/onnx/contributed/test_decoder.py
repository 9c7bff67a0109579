"""GroupQueryAttention as in ONNX Runtime: caches that grow or have room, sequences of several
lengths, windows, and attributes of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

import tessella
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.contributed.cases import Array, Case, close, made, results
from tests.frontends.onnx.models import model, value
from tests.models import run_onnxruntime
from tests.native import normal

HEADS, SHARED, SIZE = 4, 2, 16
ANGLES = normal(64, SIZE // 2), normal(64, SIZE // 2, seed=1)


@dataclass(frozen=True)
class Step:
    """A run of a decoder's attention."""

    lengths: Sequence[int]
    """The number of earlier and new tokens of each sequence."""
    new: int = 1
    room: int | None = None
    """The number of rows of the cache; None without a cache."""
    packed: bool = False
    places: Array | None = None
    bias: Array | None = None
    sink: Array | None = None
    outputs: int = 3
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def case(self) -> Case:
        batch, rotates = len(self.lengths), self.attributes.get("do_rotary")
        widths = (HEADS * SIZE, SHARED * SIZE, SHARED * SIZE)
        parts: list[Array | None] = [
            normal(batch, self.new, width, seed=i) for i, width in enumerate(widths)
        ]
        if self.packed:
            parts = [np.concatenate([x for x in parts if x is not None], 2), None, None]
        caches = [
            None if self.room is None else normal(batch, SHARED, self.room, SIZE, seed=seed)
            for seed in (5, 6)
        ]
        counts = [np.array(self.lengths, np.int32) - 1, np.array(max(self.lengths), np.int32)]
        angles = ANGLES if rotates else (None, None)
        operands = [*parts, *caches, *counts, *angles, self.places, self.bias, self.sink]
        while operands[-1] is None:
            operands.pop()
        given = {"num_heads": HEADS, "kv_num_heads": SHARED, **self.attributes}
        inputs = tuple(i for i in range(6) if operands[i] is not None)
        return Case("GroupQueryAttention", operands, given, inputs, [""] * self.outputs)


def step(lengths: Sequence[int], new: int = 1, room: int | None = None, **more: Any) -> Step:
    """Return a step; names that are not fields are attributes of the node."""
    fields = {name: more.pop(name) for name in list(more) if name in Step.__dataclass_fields__}
    return Step(lengths, new, room, attributes=more, **fields)


STEPS = {
    "prompt": step([5], 5),
    "prompt with an empty cache": step([5], 5, 0, do_rotary=1),
    "packed prompt": step([5], 5, packed=True, do_rotary=1, rotary_interleaved=1),
    "token": step([8], 1, 7, do_rotary=1),
    "tokens": step([10], 3, 7, do_rotary=1),
    "tokens of a cache with room": step([10], 3, 20, do_rotary=1),
    "token of a cache with room": step([8], 1, 20),
    "prompt of a cache with room": step([5], 5, 20, do_rotary=1),
    "prompts of two lengths": step([5, 3], 5, do_rotary=1),
    "packed prompts of two lengths": step([5, 3], 5, packed=True, local_window_size=2),
    "tokens of two lengths": step([8, 5], 1, 7, do_rotary=1),
    "tokens of two lengths with room": step([8, 5], 1, 20, do_rotary=1),
    "window of a prompt": step([9], 9, 0, local_window_size=3),
    "window of a token": step([8], 1, 7, local_window_size=3),
    "window of tokens": step([10], 3, 7, local_window_size=4, do_rotary=1),
    "window of two lengths": step([8, 5], 1, 7, local_window_size=3),
    "scale and softcap": step([8], 1, 7, scale=0.3, softcap=5.0),
    "softcap and bias": step([5], 5, 0, softcap=5.0, bias=normal(1, HEADS, 5, 5)),
    "bias of all heads": step([5], 5, 0, bias=normal(1, 1, 5, 5)),
    "bias of tokens": step([10], 3, 7, bias=normal(1, HEADS, 3, 10)),
    "bias and sink of two lengths": step([8, 5], 1, 7, bias=normal(2, 1, 1, 8), sink=normal(HEADS)),
    "smooth softmax": step([5], 5, 0, smooth_softmax=1),
    "sink": step([7], 3, 4, sink=normal(HEADS)),
    "window, softcap and sink": step(
        [10], 3, 7, local_window_size=2, softcap=2.0, sink=normal(HEADS)
    ),
    "places of a prompt": step(
        [5, 5], 5, 0, do_rotary=1, places=np.array([[3, 4, 5, 6, 7], [1, 2, 3, 4, 5]])
    ),
    "places of tokens": step([10], 3, 7, do_rotary=1, places=np.array([[9, 3, 5]])),
    "places of two lengths": step([8, 5], 1, 7, do_rotary=1, places=np.array([[9], [2]])),
    "prompt that sees all": step([5], 5, causal=0),
    "tokens that see all": step([10], 3, 7, causal=0),
    "two lengths that see all": step([8, 5], 1, 7, causal=0),
    "scores": step([10], 3, 7, outputs=4, qk_output=1),
    "scores of a cache with room": step([10], 3, 20, outputs=4, qk_output=1),
    "scores with softcap and bias": step(
        [10], 3, 7, outputs=4, qk_output=1, softcap=3.0, bias=normal(1, 1, 3, 10)
    ),
    "weights": step([10], 3, 7, outputs=4, qk_output=2),
    "weights with a sink": step([5], 5, 0, outputs=4, qk_output=2, sink=normal(HEADS)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("each", STEPS.values(), ids=STEPS)
def test_as_onnxruntime(each: Step) -> None:
    for i, (found, expected) in enumerate(zip(*results(each.case), strict=True)):
        if i == 0 and each.new > 1:
            # nothing defines the results of tokens beyond the length of their sequence
            for row, length in enumerate(each.lengths):
                found[row, length:] = expected[row, length:] = 0
        close(found, expected)


@pytest.mark.parametrize(
    "name",
    [
        "prompt",
        "token",
        "tokens of a cache with room",
        "tokens of two lengths",
        "window of a token",
    ],
)
def test_groups_of_heads_are_one_op(name: str) -> None:
    text = tessella.compile(made(STEPS[name].case)[0]).as_text("placed")
    assert text.count("nn.attention") == 1
    assert "nn.softmax" not in text


def test_norms_of_heads() -> None:
    """Queries and keys are normalized before they are rotated."""
    plain = step([5], 5, do_rotary=1).case
    scales = [normal(SIZE, seed=8), normal(SIZE, seed=9)]
    widths = {0: HEADS, 1: SHARED}
    operands = [*plain.operands, *[None] * 5, *scales]
    case = Case(plain.op, operands, plain.attributes, plain.inputs, plain.outputs)
    normalized = [*plain.operands]
    for index, heads in widths.items():
        x = plain.operands[index]
        assert x is not None
        parts = x.reshape(*x.shape[:2], heads, SIZE)
        size = np.sqrt((parts.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
        normalized[index] = (parts / size * scales[index]).astype(np.float32).reshape(x.shape)
    spelled = Case(plain.op, normalized, plain.attributes, plain.inputs, plain.outputs)
    proto, feeds = made(case)
    found = tessella.compile(proto).run(None, feeds)
    for one, other in zip(found, results(spelled)[1], strict=True):
        close(one, other)


@pytest.mark.parametrize(
    "each, message",
    [
        (step([8], 3, 7), "total_sequence_length does not fit the cache"),
        (step([2], 3, 7), "total_sequence_length does not fit the cache"),
        (step([8, 8], 3, 5), "several tokens of several sequences follow earlier ones"),
        (step([8], 1, 7, outputs=4), "'qk_output' is not 1 or 2"),
        (step([8], 1, 7, kv_num_heads=3), "num_heads is not a multiple of kv_num_heads"),
    ],
)
def test_operands_that_do_not_fit(each: Step, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tessella.compile(made(each.case)[0])


@pytest.mark.parametrize(
    "name, value", [("sliding_window_cache", 1), ("k_quant_type", "PER_TENSOR")]
)
def test_caches_that_are_refused(name: str, value: object) -> None:
    with pytest.raises(UnsupportedError, match=f"attribute '{name}' is not supported"):
        tessella.compile(made(step([8], 1, 7, **{name: value}).case)[0])


# ** open sizes **


def decoder(op: str, room: int | str = "past_sequence_length") -> onnx.ModelProto:
    """Return the attention of a decoder as ONNX Runtime's model builder writes it: the lengths come
    from a mask, and all dimensions have names of their own. ``room`` is the number of rows of
    caches."""
    helper = onnx.helper
    names, caches = ["query", "key", "value"], ["past_key", "past_value"]
    present = ["present_key", "present_value"]
    attributes: dict[str, Any] = {"unidirectional": 1}
    if op == "GroupQueryAttention":
        nodes = [
            helper.make_node("ReduceSum", ["mask", "one"], ["counts"], keepdims=0),
            helper.make_node("Sub", ["counts", "one"], ["lasts"]),
            helper.make_node("Cast", ["lasts"], ["seqlens"], to=onnx.TensorProto.INT32),
            helper.make_node("Shape", ["mask"], ["shape"]),
            helper.make_node("Gather", ["shape", "index"], ["length"], axis=0),
            helper.make_node("Cast", ["length"], ["total"], to=onnx.TensorProto.INT32),
        ]
        inputs = [*names, *caches, "seqlens", "total", "cos", "sin"]
        attributes = {"kv_num_heads": SHARED, "do_rotary": 1}
    else:
        nodes = [helper.make_node("Cast", ["mask"], ["keys"], to=onnx.TensorProto.INT32)]
        inputs = [*names, "", "keys", "", *caches]
    nodes.append(
        helper.make_node(
            op, inputs, ["y", *present], domain="com.microsoft", num_heads=HEADS, **attributes
        )
    )
    shared = SHARED if op == "GroupQueryAttention" else HEADS
    widths = (HEADS * SIZE, shared * SIZE, shared * SIZE)
    shapes = {
        **{
            name: ["batch_size", "sequence_length", w]
            for name, w in zip(names, widths, strict=True)
        },
        **{name: ["batch_size", shared, room, SIZE] for name in caches},
    }
    return model(
        nodes,
        [
            *(value(name, shape) for name, shape in shapes.items()),
            value("mask", ["batch_size", "total_sequence_length"], np.int64),
        ],
        [value("y", None), *(value(name, None) for name in present)],
        weights={
            "one": np.array([1]),
            "index": np.array(1),
            "cos": ANGLES[0],
            "sin": ANGLES[1],
        },
        domains={"com.microsoft": 1},
    )


def feeds(proto: onnx.ModelProto, batch: int, new: int, past: int) -> dict[str, Array]:
    """Return inputs for new tokens that follow earlier ones."""
    known = {"batch_size": batch, "sequence_length": new, "past_sequence_length": past}
    arrays = {}
    for seed, info in enumerate(proto.graph.input[:-1]):
        dims = info.type.tensor_type.shape.dim
        shape = (known[d.dim_param] if d.dim_param else d.dim_value for d in dims)
        arrays[info.name] = normal(*shape, seed=seed)
    return {**arrays, "mask": np.ones((batch, past + new), np.int64)}


LENGTHS = ((20, 0), (1, 20), (1, 21), (1, 40), (25, 0), (1, 50))
"""The numbers of new and earlier tokens of calls."""


def programs(proto: onnx.ModelProto, batch: int) -> tuple[int, Sequence[str]]:
    """Return how many programs calls of several lengths need, and the treatment of sizes in the
    last one."""
    decode = tessella.compile(proto, dims={})
    for new, past in LENGTHS:
        given = feeds(proto, batch, new, past)
        found, expected = decode.run(None, given), run_onnxruntime(proto, given)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    return len(decode._known_programs()), decode.explain().sizes


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("op", ["GroupQueryAttention", "MultiHeadAttention"])
def test_lengths_stay_open(op: str, batch: int) -> None:
    """A prompt and all tokens after it have one program each, for lengths of a range."""
    count, sizes = programs(decoder(op), batch)
    assert count == 2
    assert "past_sequence_length: open, from 16" in sizes
    assert "total_sequence_length: past_sequence_length + 1" in sizes


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
def test_lengths_in_a_cache_with_room_stay_open(batch: int) -> None:
    count, sizes = programs(decoder("GroupQueryAttention", room=64), batch)
    assert count == 2
    assert any(text.startswith("total_sequence_length: open, from 16") for text in sizes)
