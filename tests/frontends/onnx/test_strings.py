"""Strings, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.runtime.texts import STRING
from tessella.support.errors import (
    ExecutionError,
    InputError,
    InvalidModelError,
    ShapeError,
    UnsupportedError,
)

Array = npt.NDArray[Any]
Node = tuple[str, str, str, dict[str, Any]]
"""An op, the names of its inputs and of its outputs, and its attributes."""

WORDS = [
    *("", "a", "b", "Ab", "cat dog", " x  y ", "größe", "日本", "a.b.c", "cat", "B"),
    "longer than sixteen bytes",
]
X = np.array(WORDS, object).reshape(3, 4)
Y = np.array(WORDS[::-1], object).reshape(3, 4)


def declared(name: str, array: Array) -> onnx.ValueInfoProto:
    code = TensorProto.STRING
    if array.dtype.kind not in "OT":
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, code, array.shape)


def model(
    nodes: Sequence[Node], feeds: Mapping[str, Array], outputs: str, constants: Sequence[str] = ()
) -> onnx.ModelProto:
    """A model of these nodes; ``constants`` are the inputs that are initializers."""
    made = [helper.make_node(op, i.split(), o.split(), **named) for op, i, o, named in nodes]
    tensors = [
        helper.make_tensor(
            name,
            TensorProto.STRING,
            feeds[name].shape,
            [text.encode() for text in feeds[name].reshape(-1)],
        )
        for name in constants
    ]
    graph = helper.make_graph(
        made,
        "g",
        [declared(name, array) for name, array in feeds.items() if name not in constants],
        [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
            for name in outputs.split()
        ],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def same(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for each, expected in zip(found, wanted, strict=True):
        assert each.shape == expected.shape
        assert each.dtype == (STRING if expected.dtype == object else expected.dtype)
        assert each.tolist() == expected.tolist()


def check(
    nodes: Sequence[Node], feeds: Mapping[str, Array], outputs: str, constants: Sequence[str] = ()
) -> None:
    """The compiled model gives ONNX Runtime's results."""
    proto = model(nodes, feeds, outputs, constants)
    session = onnxruntime.InferenceSession(_typed(proto))
    given = {name: array for name, array in feeds.items() if name not in constants}
    wanted: Any = session.run(None, given)
    same(tessella.compile(proto).run(None, given), wanted)


def _typed(proto: onnx.ModelProto) -> bytes:
    """The model without types of outputs, which ONNX Runtime infers."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    for output in copy.graph.output:
        output.ClearField("type")
    return copy.SerializeToString()


DEPTH = np.array(3)
MOVES: dict[str, tuple[Node, dict[str, Array]]] = {
    "Gather": (("Gather", "x i", "z", {"axis": 1}), {"i": np.array([[3, 0], [1, 1]])}),
    "GatherElements": (("GatherElements", "x i", "z", {}), {"i": np.array([[2, 0, 1, 1]])}),
    "GatherND": (("GatherND", "x i", "z", {}), {"i": np.array([[2, 3], [0, 0]])}),
    "Reshape": (("Reshape", "x i", "z", {}), {"i": np.array([2, -1])}),
    "Transpose": (("Transpose", "x", "z", {}), {}),
    "Flatten": (("Flatten", "x", "z", {"axis": 0}), {}),
    "Concat": (("Concat", "x y x", "z", {"axis": 1}), {"y": Y}),
    "Slice": (("Slice", "x i j", "z", {}), {"i": np.array([2, 1]), "j": np.array([-9, 9])}),
    "Split": (("Split", "x", "z v", {"axis": 1, "num_outputs": 2}), {}),
    "Expand": (("Expand", "x i", "z", {}), {"i": np.array([2, 1, 1])}),
    "Tile": (("Tile", "x i", "z", {}), {"i": np.array([1, 3])}),
    "Unsqueeze": (("Unsqueeze", "x i", "z", {}), {"i": np.array([0])}),
    "Identity": (("Identity", "x", "z", {}), {}),
    "Where": (("Where", "c x y", "z", {}), {"c": np.eye(3, 4, dtype=bool), "y": Y}),
    "Equal": (("Equal", "x y", "z", {}), {"y": np.where(np.eye(3, 4, dtype=bool), X, Y)}),
    "Compress": (("Compress", "x c", "z", {}), {"c": np.array([1, 0, 1], bool)}),
    "ReverseSequence": (("ReverseSequence", "x i", "z", {}), {"i": np.array([2, 3, 1, 2])}),
    "ScatterElements": (
        ("ScatterElements", "x i y", "z", {}),
        {"i": np.eye(3, 4, dtype=int), "y": Y},
    ),
    "OneHot": (
        ("OneHot", "i d y", "z", {}),
        {"i": np.array([1, 0]), "d": DEPTH, "y": Y[0, :2]},
    ),
    "Unique": (("Unique", "x", "z f i n", {}), {"x": X[:, [0, 1, 0, 0]]}),
    "Unique, unsorted": (("Unique", "x", "z f i n", {"sorted": 0}), {"x": X[:, [1, 0, 0, 1]]}),
    "Unique rows": (("Unique", "x", "z f i n", {"axis": 0}), {"x": X[[1, 0, 1, 0]]}),
    "Shape": (("Shape", "x", "z", {}), {}),
}


@pytest.mark.parametrize("op", MOVES)
def test_ops_that_move_or_compare_strings(op: str) -> None:
    node, others = MOVES[op]
    check([node], {"x": X, **others}, node[2])


C = {"locale": "C"}  # the only one that each machine has

TEXT_OPS: dict[str, tuple[Node, dict[str, Array]]] = {
    "concat": (("StringConcat", "x y", "z", {}), {"x": X, "y": Y}),
    "concat, broadcast": (("StringConcat", "x y", "z", {}), {"x": X, "y": Y[0]}),
    "match": (("RegexFullMatch", "x", "z", {"pattern": "[a-z ]*|日."}), {"x": X}),
    "split": (("StringSplit", "x", "z n", {}), {"x": X}),
    "split once": (("StringSplit", "x", "z n", {"maxsplit": 1}), {"x": X}),
    "split at dots": (("StringSplit", "x", "z n", {"delimiter": "."}), {"x": X[1:]}),
    "split nothing": (("StringSplit", "x", "z n", {}), {"x": X[:0]}),
    "lower": (("StringNormalizer", "x", "z", {"case_change_action": "LOWER", **C}), {"x": X[0]}),
    "upper": (
        (
            "StringNormalizer",
            "x",
            "z",
            {"case_change_action": "UPPER", "is_case_sensitive": 1, "stopwords": ["Ab"], **C},
        ),
        {"x": X[:1]},
    ),
    "without case": (
        ("StringNormalizer", "x", "z", {"is_case_sensitive": 0, "stopwords": ["AB"], **C}),
        {"x": X[0]},
    ),
    "nothing left": (
        ("StringNormalizer", "x", "z", {"is_case_sensitive": 1, "stopwords": WORDS, **C}),
        {"x": X[:1]},
    ),
}


@pytest.mark.parametrize("case", TEXT_OPS)
def test_ops_on_strings(case: str) -> None:
    node, feeds = TEXT_OPS[case]
    check([node], feeds, node[2])


@pytest.mark.parametrize("case", ["concat", "match", "split", "lower"])
def test_ops_on_constants(case: str) -> None:
    node, feeds = TEXT_OPS[case]
    check([node, ("Neg", "f", "g", {})], {**feeds, "f": np.ones(2)}, f"{node[2]} g", [*feeds])


NUMBERS = np.array([" 1", "-2.5", "1e3", "inf", "-INF", "NaN", "0"], object)


@pytest.mark.parametrize("to", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"])
def test_strings_as_floats(to: str) -> None:
    proto = model([("Cast", "x", "z", {"to": TensorProto.DataType.Value(to)})], {"x": NUMBERS}, "z")
    [found] = tessella.compile(proto).run(None, {"x": NUMBERS})
    wanted = np.array([1, -2.5, 1000, np.inf, -np.inf, np.nan, 0])
    np.testing.assert_array_equal(np.float64(tessella.runtime.elements.widened(found)), wanted)


def test_strings_as_integers() -> None:
    x = np.array(["1", "-100", "100.5", "300"], object)
    nodes = [
        ("Cast", "x", name, {"to": TensorProto.DataType.Value(name)})
        for name in ("INT64", "UINT8", "BOOL")
    ]
    found = tessella.compile(model(nodes, {"x": x}, "INT64 UINT8 BOOL")).run(None, {"x": x})
    assert [each.tolist() for each in found] == [[1, -100, 100, 300], [1, 0, 100, 255], [True] * 4]


def test_numbers_as_strings() -> None:
    x = np.array([0.1, -2, 1e-7, 1e16, np.nan, np.inf, -np.inf], np.float32)
    nodes = [("Cast", name, f"{name}s", {"to": TensorProto.STRING}) for name in "xib"]
    feeds = {"x": x, "i": np.array([-(1 << 62), 7]), "b": np.array([True, False])}
    found = tessella.compile(model(nodes, feeds, "xs is bs")).run(None, feeds)
    assert [each.tolist() for each in found] == [
        ["0.1", "-2.0", "0.0000001", "10000000000000000.0", "NaN", "INF", "-INF"],
        ["-4611686018427387904", "7"],
        ["True", "False"],
    ]


def test_a_string_that_is_no_number() -> None:
    proto = model([("Cast", "x", "z", {"to": TensorProto.FLOAT})], {"x": X}, "z")
    with pytest.raises(ExecutionError, match="not a number"):
        tessella.compile(proto).run(None, {"x": X})


CONCAT = model([("StringConcat", "x y", "z", {})], {"x": X, "y": Y}, "z")
JOINED = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(X, Y, strict=True)]


@pytest.mark.parametrize("form", [list, np.str_, object, "T", np.dtypes.StringDType(coerce=False)])
def test_forms_of_inputs(form: Any) -> None:
    x = X.tolist() if form is list else X.astype(form)
    [found] = tessella.compile(CONCAT).run(None, {"x": x, "y": Y})
    assert found.dtype == STRING
    assert found.tolist() == JOINED


@pytest.mark.parametrize("wrong", [np.ones((3, 4)), np.full((3, 4), None), np.full((3, 4), b"a")])
def test_inputs_that_are_no_strings(wrong: Array) -> None:
    with pytest.raises(InputError):
        tessella.compile(CONCAT).run(None, {"x": wrong, "y": Y})


def test_a_string_that_is_not_unicode() -> None:
    with pytest.raises(InputError, match="not valid Unicode"):
        tessella.compile(CONCAT).run(None, {"x": np.full((3, 4), "\ud800", object), "y": Y})


def test_ops_that_take_no_strings() -> None:
    proto = model([("StringConcat", "x f", "z", {})], {"x": X, "f": np.ones(4)}, "z")
    with pytest.raises((ShapeError, InvalidModelError)):
        tessella.compile(proto).run(None, {"x": X, "f": np.ones(4)})


def test_a_pattern_that_is_none() -> None:
    proto = model([("RegexFullMatch", "x", "z", {"pattern": "("})], {"x": X}, "z")
    with pytest.raises(InvalidModelError, match="not a regular expression"):
        tessella.compile(proto).run(None, {"x": X})


def test_padding_is_of_empty_strings() -> None:
    feeds = {"x": X, "i": np.array([1, 0, 0, 2])}
    [found] = tessella.compile(model([("Pad", "x i", "z", {})], feeds, "z")).run(None, feeds)
    assert found.tolist() == np.pad(X, ((1, 0), (0, 2)), constant_values="").tolist()


def test_arithmetic_takes_no_strings() -> None:
    for op in ("Add x x", "Relu x", "MatMul x x", "Softmax x", "TopK x i"):
        name, *taken = op.split()
        feeds = {"x": X, "i": np.array([1])}
        proto = model([(name, " ".join(taken), "z", {})], feeds, "z")
        with pytest.raises((ShapeError, InvalidModelError, UnsupportedError)):
            tessella.compile(proto).run(None, feeds)


def test_a_shape_of_strings() -> None:
    feeds = {"x": X, "f": np.ones((3, 4))}
    with pytest.raises(ShapeError, match="must hold integers"):
        tessella.compile(model([("Reshape", "f x", "z", {})], feeds, "z")).run(None, feeds)


def test_strings_under_jit() -> None:
    x = X.astype("T")
    assert tessella.jit(lambda x: x.T)(x).tolist() == X.T.tolist()
    with pytest.raises(ShapeError, match="takes no strings"):
        tessella.jit(lambda x: x + x)(x)


def test_a_loop_that_carries_strings() -> None:
    body = helper.make_graph(
        [
            helper.make_node("StringConcat", ["a", "y"], ["b"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.STRING, X.shape),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", TensorProto.STRING, X.shape),
        ],
    )
    loop: Node = ("Loop", "n c x", "z", {"body": body})
    check([loop], {"x": X, "y": Y, "n": np.array(2), "c": np.array(True)}, "z")


def test_a_fixed_value() -> None:
    fixed = tessella.compile(CONCAT, values={"x": X})
    assert [info.name for info in fixed.inputs] == ["y"]
    assert fixed.run(None, {"y": Y})[0].tolist() == JOINED


def test_constants_of_nodes() -> None:
    nodes: list[Node] = [
        ("Constant", "", "one", {"value_string": "é"}),
        ("Constant", "", "two", {"value_strings": ["a", "b"]}),
        ("Concat", "x two", "z", {"axis": 0}),
        ("Equal", "x one", "e", {}),
    ]
    x = np.array(["é", "f"], object)
    check(nodes, {"x": x}, "z e")


def test_sequences_of_strings() -> None:
    nodes: list[Node] = [
        ("SequenceConstruct", "x y", "s", {}),
        ("SequenceAt", "s i", "z", {}),
        ("ConcatFromSequence", "s", "c", {"axis": 0}),
    ]
    check(nodes, {"x": X, "y": Y, "i": np.array(1)}, "z c")


def test_a_network_on_the_labels_of_its_input(tmp_path: Path) -> None:
    """Constants of strings are read in the first subprogram, in a step and after it, and again from
    an artifact."""
    nodes: list[Node] = [
        ("Gather", "labels i", "a", {"axis": 0}),
        ("StringConcat", "a suffix", "b", {}),
        ("Equal", "b wanted", "e", {}),
        ("Cast", "e", "f", {"to": TensorProto.FLOAT}),
        ("Mul", "f x", "z", {}),
        ("Where", "e b labels", "w", {}),
    ]
    feeds = {
        "i": np.array([2, 0, 1]),
        "x": np.array([1.5, 2.5, 3.5], np.float32),
        "labels": np.array(["cat", "dog", "größe"], object),
        "suffix": np.array(["s"], object),
        "wanted": np.array(["cats"], object),
    }
    constants = ("labels", "suffix", "wanted")
    check(nodes, feeds, "z w", constants)
    proto = model(nodes, feeds, "z w", constants)
    given = {name: feeds[name] for name in "ix"}
    compiled = tessella.compile(proto)
    wanted = compiled.run(None, given)
    compiled.save(tmp_path / "m.tsl")
    same(tessella.load(tmp_path / "m.tsl").run(None, given), wanted)


TEXTS = """
<ir_version: 10, opset_import: ["": 20]>
words (string[n] x, float[n] weight)
    => (string[n, k] parts, float[n] y, string[m] kept, bool[n, k] b)
{
    parts, counts = StringSplit(x)
    number = Cast<to = 1>(counts)
    y = Mul(number, weight)
    b = RegexFullMatch<pattern = "[a-z]+">(parts)
    whole = Constant<value_ints = [-1]>()
    row = Reshape(parts, whole)
    kept = StringNormalizer<case_change_action = "UPPER", stopwords = ["a", ""]>(row)
}
"""
"""A network on the words of texts, whose numbers only running tells."""

CALLS = [["one two", "a", "three  a Four"], ["x"] * 12, ["", "b c d e"], ["a", "", "c"]]


def texts_of(x: Sequence[str]) -> dict[str, Array]:
    return {"x": np.array(x, object), "weight": np.arange(len(x), dtype=np.float32) + 1}


def expected(feeds: Mapping[str, Array]) -> list[Array]:
    rows = [text.split() or [""] for text in feeds["x"].tolist()]
    width = max(map(len, rows))
    parts = np.array([row + [""] * (width - len(row)) for row in rows], object)
    kept = [text.upper() for row in parts.tolist() for text in row if text.lower() not in ("a", "")]
    lowered = [[re.fullmatch("[a-z]+", text) is not None for text in row] for row in parts.tolist()]
    y = np.array([*map(len, map(str.split, feeds["x"].tolist()))], np.float32) * feeds["weight"]
    return [parts, y, np.array(kept or [""], object), np.array(lowered)]


def test_one_program_divides_all_texts(tmp_path: Path) -> None:
    """The numbers of words are symbols of the program, also in an artifact and on two threads."""
    model = tessella.compile(onnx.parser.parse_model(TEXTS), dims={})
    model.threads = 2
    for x in CALLS:
        same(model.run(None, texts_of(x)), expected(texts_of(x)))
    [program] = model.compiled().programs
    assert program.rest is None
    explanation = model.explain()
    assert not explanation.subprograms
    defined = [line for line in explanation.sizes if "defined by String" in line]
    assert [line.partition(",")[0].partition(" by ")[2] for line in defined] == [
        "StringSplit_0",
        "StringNormalizer_6",
    ]
    assert {"nn.string_split", "nn.mul"} <= {entry["op"] for entry in explanation.ops}
    assert "nn.string_split %x sizes [[count_0]]" in model.as_text("nn")
    model.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    for x in CALLS:
        same(loaded.run(None, texts_of(x)), expected(texts_of(x)))
    rows = loaded.profile(texts_of(CALLS[0]), runs=2).rows
    assert "nn.string_split" in {row.kernel for row in rows}


@pytest.mark.parametrize("op", ["StringSplit", "RegexFullMatch"])
def test_what_is_no_string_is_named(op: str) -> None:
    proto = model([(op, "x", "z", {"pattern": "a"} if op[0] == "R" else {})], {"x": X}, "z")
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises((ShapeError, InvalidModelError), match=op):
        tessella.compile(proto).run(None, {"x": np.ones(X.shape, np.float32)})
