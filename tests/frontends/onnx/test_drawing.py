"""Random draws: their distributions, and what a seed fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import tessella
from tessella.support.errors import InvalidModelError
from tests.frontends.onnx.models import model, one_node, run, value

Array = npt.NDArray[Any]

N = 10_000
LIKE = np.zeros((100, 100), np.float32)


def drawn(op: str, inputs: Mapping[str, Array], **attributes: Any) -> Sequence[Array]:
    """The results of two calls."""
    proto = one_node(op, inputs, opset=22, **attributes)
    for output in proto.graph.output:
        output.ClearField("type")
    compiled = tessella.compile(proto)
    return [compiled.run(None, inputs)[0] for _ in range(2)]


CASES: Sequence[tuple[str, Mapping[str, Array], dict[str, Any], float, float]] = [
    ("RandomUniform", {}, {"shape": [100, 100], "low": -1.0, "high": 3.0}, 1, 4 / 12**0.5),
    ("RandomUniformLike", {"x": LIKE}, {"dtype": 11}, 0.5, 1 / 12**0.5),
    ("RandomNormal", {}, {"shape": [N], "mean": 2.0, "scale": 3.0}, 2, 3),
    ("RandomNormalLike", {"x": LIKE}, {"dtype": 10}, 0, 1),
    ("Bernoulli", {"x": LIKE + np.float32(0.25)}, {}, 0.25, 0.1875**0.5),
    ("Multinomial", {"x": np.array([[0, -np.inf, np.log(3)]])}, {"sample_size": N}, 1.5, 0.75**0.5),
]  # fmt: skip


@pytest.mark.parametrize(
    "op, inputs, attributes, mean, deviation", CASES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_distributions(
    op: str, inputs: Mapping[str, Array], attributes: dict[str, Any], mean: float, deviation: float
) -> None:
    first, second = drawn(op, inputs, seed=4.0, **attributes)
    np.testing.assert_array_equal(first, second)
    assert first.size == N
    assert abs(first.mean(dtype=np.float64) - mean) < 4 * deviation / N**0.5
    assert abs(first.std(dtype=np.float64) / deviation - 1) < 0.05
    other, another = drawn(op, inputs, **attributes)
    assert (other != another).any()
    assert other.dtype == first.dtype


def test_certain_draws() -> None:
    x = np.array([0, 1, 1, 0], np.float32)
    proto = one_node("Bernoulli", {"x": x}, opset=22, dtype=9)
    proto.graph.output[0].ClearField("type")
    [found] = run(proto, {"x": x})
    np.testing.assert_array_equal(found, x != 0)


def test_dropout_draws_anew() -> None:
    inputs = {"x": LIKE + 1, "ratio": np.array(0.25, np.float32), "training": np.array(True)}
    proto = one_node("Dropout", inputs, opset=22, outputs=2, constants=("ratio", "training"))
    proto.graph.output[1].type.tensor_type.elem_type = 9
    compiled = tessella.compile(proto)
    (y, mask), (_, other) = (compiled.run(None, {"x": inputs["x"]}) for _ in range(2))
    np.testing.assert_array_equal(y, np.where(mask, np.float32(4 / 3), 0))
    assert (mask != other).any()
    assert abs(mask.mean() - 0.75) < 0.03


def test_a_dropout_without_training_draws_nothing() -> None:
    proto = one_node("Dropout", {"x": LIKE}, opset=22, seed=3)
    np.testing.assert_array_equal(tessella.compile(proto)(LIKE), LIKE)


def test_draws_are_in_the_program() -> None:
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["r"]),
        helper.make_node("Add", ["r", "x"], ["s"]),
        helper.make_node("RandomNormalLike", ["s"], ["n"]),
    ]
    proto = model(nodes, [value("x", ["n", 3])], [value("s", ["n", 3]), value("n", ["n", 3])])
    compiled = tessella.compile(proto)
    for rows in (2, 5):
        x = np.full((rows, 3), 7, np.float32)
        found, _ = compiled.run(None, {"x": x})
        assert ((found >= 7) & (found < 8)).all()
        assert len(np.unique(found)) == found.size
    assert "nn.random_uniform low 0.0 high 1.0 shape [[n], 3] to f32" in compiled.as_text("nn")


def test_iterations_draw_anew() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("Multinomial", ["p"], ["c"]),
        ],
        "body",
        [value("i", [], np.int64), value("go", [], np.bool_)],
        [value("again", [], np.bool_), value("c", [1, 1], np.int32)],
    )
    loop = helper.make_node("Loop", ["steps", ""], ["classes"], body=body)
    p = np.zeros((1, 1000), np.float32)
    proto = model(
        [loop],
        [value("p", [1, 1000])],
        [value("classes", [None, 1, 1], np.int32)],
        weights={"steps": np.array(20)},
    )
    [classes] = tessella.compile(proto).run(None, {"p": p})
    assert classes.shape == (20, 1, 1)
    assert len(np.unique(classes)) > 10


def test_a_seed_is_finite() -> None:
    proto = one_node("RandomNormal", {}, opset=22, shape=[3], seed=float("nan"))
    with pytest.raises(InvalidModelError, match="a seed is not a number"):
        tessella.compile(proto)
