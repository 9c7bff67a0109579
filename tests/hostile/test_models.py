"""ONNX models that want too much, call themselves something odd, or are damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tessella
from tessella import Model, TessellaError
from tessella.support.errors import (
    InternalError,
    InvalidModelError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from tests.frontends.onnx.models import model, value
from tests.hostile.limits import gigabytes, seconds
from tests.hostile.models import X, Y, calling, mixed, one

F = np.float32
HUGE = 1 << 40


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def floats(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


ONES = np.ones((1, 1, 1), F)
STEPS = {"w": ONES, "r": ONES}
THREE = np.ones((1, 1, 3, 3), F)


# ** tensors that are larger than the model **

BOMBS: list[tuple[str, onnx.ModelProto]] = [
    ("too large", one("ConstantOfShape", {"s": ints(HUGE)})),
    ("too large", one("ConstantOfShape", {"s": ints(1 << 32, 1 << 32)})),  # wraps to 0
    ("too large", one("ConstantOfShape", {"s": ints(0, 1 << 62)})),
    ("too large", one("Expand", {"x": [1], "s": ints(HUGE)})),
    ("too large", one("Tile", {"x": [1], "r": ints(HUGE)})),
    ("too large", one("Pad", {"x": [1], "p": ints(HUGE, HUGE)})),
    ("too large", one("Range", {"a": np.array(0), "b": np.array(HUGE), "d": np.array(1)})),
    ("too large", one("Resize", {"x": [1, 1, 2, 2], "r": floats(), "s": floats(1, 1, 1e6, 1e6)})),
    ("too large", one("Upsample", {"x": [1, 1, 2, 2], "s": floats(1, 1, 1e6, 1e6)}, opset=9)),
    ("too large", one("OneHot", {"x": [2], "d": ints(HUGE), "v": floats(0, 1)})),
    ("too large", one("HannWindow", {"n": np.array(HUGE)})),
    ("too large", one("DFT", {"x": [1, 8, 1], "n": np.array(HUGE)})),
    ("too large", one("DFT", {"x": [1, 1 << 20, 1]})),
    ("too large", one("Trilu", {"x": [1 << 15, 1 << 15]})),
    ("too large", one("Einsum", {"a": [1 << 20], "b": [1 << 20]}, equation="i,j->ij")),
    ("too large", one("Conv", {"x": [1, 1, 2, 2], "w": np.ones((1, 1, 1, 1), F)}, pads=[HUGE] * 4)),
    ("too large", one("ConvTranspose", {"x": [1, 1, 2, 2], "w": THREE}, strides=[HUGE] * 2)),
    ("padding", one("AveragePool", {"x": [1, 1, 4, 4]}, kernel_shape=[2, 2], pads=[HUGE] * 4)),
    *(
        ("too large", one("Resize", {"x": [1, 1, 4], "r": floats(), "s": floats(1, 1, s)}, mode=m))
        for m, s in (("nearest", 1e9), ("linear", 1e9), ("cubic", 1e9), ("cubic", 1e6))
    ),
    (
        "too large",
        one("Resize", {"x": [1, 1, 4], "r": floats(), "s": floats(), "z": ints(1, 1, 1 << 31)}),
    ),
    ("too large", one("Upsample", {"x": [1, 1, 4], "s": floats(1, 1, 1e9)}, opset=9)),
    *(
        ("too large", one(op, {"x": [1, 1, 4]}, opset=22, kernel_shape=[size], pads=[size - 1, 0]))
        for op in ("MaxPool", "AveragePool", "LpPool")
        for size in (1 << 27, 1 << 31, 1 << 62)
    ),
    (
        "too large",
        one("LpPool", {"x": [1, 1024, 4]}, opset=22, kernel_shape=[1 << 18], pads=[1 << 17] * 2),
    ),
    (
        "too large",
        one(
            "Col2Im",
            {"x": [1, 4, 4], "i": ints(4, 4), "b": ints(2, 2)},
            dilations=[1 << 62] * 2,
            pads=[1 << 62] * 4,
            strides=[1 << 62] * 2,
        ),
    ),
    ("too large", one("Relu", {"x": [HUGE]})),
    ("too large", one("Relu", {"x": [1 << 32, 1 << 32]})),
    ("impossible shape", one("Relu", {"x": [1] * 70})),
]  # fmt: skip


@pytest.mark.parametrize(
    "message, proto",
    BOMBS,
    ids=[f"{p.graph.node[0].op_type}-{i}" for i, (_, p) in enumerate(BOMBS)],
)
def test_a_small_model_of_large_tensors(message: str, proto: onnx.ModelProto) -> None:
    with (
        seconds(5),
        gigabytes(2),
        pytest.raises((ResourceError, ShapeError, UnsupportedError), match=message),
    ):
        tessella.compile(proto)


def test_what_may_be_large_but_does_not_fit() -> None:
    """Within the limits of a model, and beyond what there is."""
    constant = one("ConstantOfShape", {"s": ints(1 << 31)})
    nodes = [*constant.graph.node, helper.make_node("ReduceSum", ["y0"], ["y"], keepdims=0)]
    total = model(nodes, [], [value("y", None)], weights={"s": ints(1 << 31)}, opset=18)
    with seconds(20), gigabytes(2):
        for proto in (constant, total):
            with pytest.raises(ResourceError):
                tessella.compile(proto)()


# ** functions and branches **


@pytest.mark.parametrize("depth", [20, 60])
def test_functions_that_make_2_to_the_n_nodes(depth: int) -> None:
    with seconds(20), pytest.raises(ResourceError, match="call each other too often"):
        tessella.compile(calling(depth, 2))


def test_functions_that_call_functions_too_deep() -> None:
    x = np.array([-1, 2], F)
    assert tessella.compile(calling(50, 1))(x).tolist() == [0, 2]
    with pytest.raises(InvalidModelError, match="nested too deeply"):
        tessella.compile(calling(70, 1))


def test_names_do_not_grow_with_calls() -> None:
    """A node's name has those of all calls around it: 2000 nodes of 3 MB each would be 6 GB."""
    with seconds(20), gigabytes(1):
        compiled = tessella.compile(calling(11, 2, name="n" * 300_000))
    assert compiled(np.array([-1, 2], F)).tolist() == [0, 2]


def nested(depth: int) -> bytes:
    """An If in an If in an If; the protobuf itself is written by hand, as nobody else would."""

    def field(number: int, data: bytes) -> bytes:
        size, digits = len(data), []
        while True:
            digits.append(size & 127 | (128 if size > 127 else 0))
            size >>= 7
            if not size:
                return bytes([number << 3 | 2, *digits]) + data

    def graph(node: bytes, output: str) -> bytes:
        info = value(output, [2]).SerializeToString()
        return field(1, node) + field(2, b"g") + field(12, info)

    inner = graph(helper.make_node("Relu", ["x"], ["z0"]).SerializeToString(), "z0")
    for i in range(1, depth):
        branches = [
            field(1, name) + field(6, inner) + b"\xa0\x01\x05"
            for name in (b"then_branch", b"else_branch")[: 2 if i == 1 else 1]
        ]
        if i > 1:
            simple = graph(helper.make_node("Relu", ["x"], ["e"]).SerializeToString(), "e")
            branches.append(field(1, b"else_branch") + field(6, simple) + b"\xa0\x01\x05")
        node = field(1, b"c") + field(2, f"z{i}".encode()) + field(4, b"If")
        inner = graph(node + b"".join(field(5, branch) for branch in branches), f"z{i}")
    inner += field(11, value("x", [2]).SerializeToString())
    inner += field(5, numpy_helper.from_array(np.array(True), "c").SerializeToString())
    imports = helper.make_opsetid("", 18).SerializeToString()
    return b"\x08\x09" + field(7, inner) + field(8, imports)


def test_branches_in_branches() -> None:
    x = np.array([-1, 2], F)
    assert tessella.compile(nested(20))(x).tolist() == [0, 2]
    with seconds(10), pytest.raises(InvalidModelError):
        tessella.compile(nested(2000))


def test_long_lists_take_no_longer_than_they_are() -> None:
    """A duplicate is found at once, also after 50000 other entries."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    for i in (*range(50_000), 49_999):
        proto.graph.initializer.add(name=f"w{i}", data_type=1, dims=[0])
    with seconds(5), pytest.raises(InvalidModelError, match=r"two initializers[^$]*w49999"):
        tessella.compile(proto)


# ** names **

NAMES = [
    *("", " ", "é", "日本", "\n", "\t", "\0", "a\0b", "\u202e", "\u2028", "\x85", "\x7f"),
    *('"', '\\"', "'", "\\", "%x", "@main", "main", "#x", "//", "/*", "{", "->", "tensor<4xf32>"),
    *(
        "..",
        "/",
        "../../etc/passwd",
        "C:\\x",
        "x.npy",
        "w:",
        "None",
        "memcpy",
        "llvm.trap",
        "arena",
    ),
    *("segment_0", "x" * 10_000, "x" * 70_000),
]


def check_all_stages(made: Model, x: str, y: str) -> None:
    assert [i.name for i in made.inputs] == [x]
    np.testing.assert_allclose(made.run([y], {x: X})[0], Y, rtol=1e-5, atol=1e-6)
    str(made.explain())
    for stage in ("nn", "placed", "tile", "loops", "llvm"):
        made.as_text(stage)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:12]))
def test_names_are_names_and_nothing_else(name: str) -> None:
    check_all_stages(tessella.compile(mixed(name)), f"x{name}", f"y{name}")


def test_an_input_that_is_called_like_code_of_ours() -> None:
    names = ["%0", "@main", "input", "self", "arena"]
    nodes = [
        helper.make_node("Add", names[:2], ["s"]),
        helper.make_node("Max", ["s", *names[2:]], ["output"]),
    ]
    proto = model(nodes, [value(n, [2]) for n in names], [value("output", [2])])
    feeds = {name: np.full(2, i, F) for i, name in enumerate(names)}
    assert tessella.compile(proto).run(None, feeds)[0].tolist() == [4, 4]


# ** windows, axes and numbers that make no sense **

KERNEL = np.ones((4, 4, 3, 3), F)
IMAGE = [1, 4, 5, 5]
ROI = floats(0, 0, np.nan, 0, 1, 1, np.inf, 1)
Settings = dict[str, Any]
SENSELESS: list[Callable[[], onnx.ModelProto]] = [
    *(
        lambda k=k: one("Conv", {"x": IMAGE, "w": KERNEL}, **cast(Settings, k))
        for k in (
            {"group": 0}, {"group": -1}, {"group": 3}, {"strides": [0, 1]}, {"strides": [-1, 1]},
            {"dilations": [0, 1]}, {"dilations": [1 << 62, 1]}, {"pads": [-1, 0, 0, 0]},
            {"pads": [1, 0, 0]}, {"kernel_shape": [2, 2]}, {"kernel_shape": [3]}, {"group": 0.5},
            {"strides": "x"}, {"auto_pad": "x"}, {"auto_pad": 3}, {"pads": [1.5] * 4},
        )
    ),
    *(
        lambda k=k: one("MaxPool", {"x": IMAGE}, **cast(Settings, k))
        for k in (
            {"kernel_shape": [0, 0]}, {"kernel_shape": [HUGE, 1]}, {"kernel_shape": [-1, 2]},
            {"kernel_shape": [2, 2], "strides": [0, 1]}, {"kernel_shape": [2, 2, 2]}, {},
            {"kernel_shape": [2, 2], "dilations": [0, 0]},
            {"kernel_shape": [2, 2], "pads": [-3, 0, 0, 0]},
        )
    ),
    lambda: one("Conv", {"x": [1, 4, 2, 2], "w": KERNEL}),
    lambda: one("Transpose", {"x": [2, 3]}, perm=[0, 0]),
    lambda: one("Transpose", {"x": [2, 3]}, perm=[0, 1 << 62]),
    lambda: one("Softmax", {"x": [2, 3]}, axis=1 << 62),
    lambda: one("Concat", {"x": [2, 3]}, axis=-3),
    lambda: one("ReduceSum", {"x": [2, 3], "a": ints(0, 0)}),
    lambda: one("Squeeze", {"x": [1, 3], "a": ints(-(1 << 63))}),
    lambda: one("Unsqueeze", {"x": [3], "a": ints(*range(70))}),
    lambda: one("Reshape", {"x": [2, 3], "s": ints(-1, -1)}),
    lambda: one("Reshape", {"x": [2, 3], "s": ints(-(1 << 63), 6)}),
    lambda: one("Slice", {"x": [3], "a": ints(0), "b": ints(3), "c": ints(0), "d": ints(0)}),
    lambda: one("Split", {"x": [2], "s": ints(-1, 3)}, outputs=2),
    lambda: one("Pad", {"x": [3], "p": ints(-2, -2)}),
    lambda: one("Pad", {"x": [0], "p": ints(1, 1)}, mode="reflect"),
    lambda: one("Tile", {"x": [3], "r": ints(-1)}),
    lambda: one("TopK", {"x": [3], "k": ints(HUGE)}, outputs=2),
    lambda: one("LRN", {"x": IMAGE}, size=0),
    lambda: one("DepthToSpace", {"x": IMAGE}, blocksize=0),
    lambda: one("DepthToSpace", {"x": IMAGE}, blocksize=HUGE),
    lambda: one("Gelu", {"x": [2]}, opset=20, approximate="x"),
    lambda: one("DepthToSpace", {"x": IMAGE}, blocksize=2, mode="x"),
    lambda: one("Upsample", {"x": IMAGE, "s": np.ones(4, F) * 2}, opset=9, mode="x"),
    lambda: one("RNN", {"x": [2, 1, 1], **STEPS}, hidden_size=1, direction="x"),
    lambda: one("Einsum", {"x": [2]}, equation="i->->"),
    lambda: one("Einsum", {"x": [2]}, equation=".i..->"),
    lambda: one("Cast", {"x": [2]}, to=-(1 << 63)),
    lambda: one("Col2Im", {"x": [1, 4, 4], "i": ints(3, 3), "b": ints(0, 0)}),
    lambda: one("STFT", {"x": [1, 64, 1], "s": np.array(0), "w": np.ones(8, F)}),
    lambda: one(
        "Resize",
        {"x": [1, 1, 2, 2], "r": ROI, "s": floats(), "z": ints(1, 1, 3, 3)},
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
]  # fmt: skip


@pytest.mark.parametrize("make", SENSELESS, ids=range(len(SENSELESS)))
def test_what_makes_no_sense(make: Callable[[], onnx.ModelProto]) -> None:
    proto = make()
    with seconds(5), gigabytes(2), pytest.raises(TessellaError) as caught:
        tessella.compile(proto)
    assert not isinstance(caught.value, InternalError)
