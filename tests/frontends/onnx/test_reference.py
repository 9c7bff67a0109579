"""Ops that the fuzzer has no row for and ONNX Runtime does not have, against ``onnx.reference``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.support.errors import InvalidModelError, ShapeError, TessellaError
from tests.frontends.onnx.models import model, run, same, value
from tests.native import normal

Array = npt.NDArray[Any]

TRAINING = "ai.onnx.preview.training"
PREVIEW = "ai.onnx.preview"


@dataclass(frozen=True)
class Case:
    """A node by its op, domain and attributes, and its operands; None for an absent one."""

    op: str
    operands: Sequence[Array | None]
    domain: str = ""
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """Return the model of the node, and its inputs by name."""
        feeds = {f"x{i}": x for i, x in enumerate(self.operands) if x is not None}
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.operands)]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        inputs = [value(name, x.shape, x.dtype) for name, x in feeds.items()]
        outputs = [value(name, None) for name in results]
        domains = {self.domain: 1} if self.domain else {}
        proto = model([node], inputs, outputs, opset=26, domains=domains)
        for output in proto.graph.output:
            output.ClearField("type")
        return proto, feeds


def updates(kinds: int, dtype: npt.DTypeLike, steps: int) -> Sequence[Array]:
    """The operands of an optimizer, for two tensors."""
    groups = [[np.abs(normal(3, 2, seed=i)), np.abs(normal(5, seed=9 + i))] for i in range(kinds)]
    rate, count = np.array(0.1, dtype), np.array(steps)
    return [rate, count, *(x.astype(dtype) for group in groups for x in group)]


DECAYS = {"alpha": 0.75, "beta": 0.875, "norm_coefficient": 0.125}


def optimizers(dtype: npt.DTypeLike, steps: int) -> Sequence[Case]:
    """A case of each optimizer."""
    momentum = updates(3, dtype, steps)
    adam = DECAYS | {"norm_coefficient_post": 0.5}
    return [
        *(
            Case("Momentum", momentum, TRAINING, 4, {**DECAYS, "mode": mode})
            for mode in ("standard", "nesterov")
        ),
        Case("Adagrad", momentum, TRAINING, 4, {"decay_factor": 0.5, "norm_coefficient": 0.25}),
        Case("Adam", updates(4, dtype, steps), TRAINING, 6, adam),
    ]


def scores_graph(op: str, number: float) -> onnx.GraphProto:
    """A graph that combines its input with a number."""
    scores = helper.make_tensor_value_info("s", TensorProto.FLOAT, [None] * 4)
    other = helper.make_tensor("n", TensorProto.FLOAT, [], [number])
    changed = helper.make_tensor_value_info("t", TensorProto.FLOAT, [None] * 4)
    return helper.make_graph(
        [helper.make_node(op, "sn", "t")], "change", [scores], [changed], [other]
    )


def attention(*, heads: int, **attributes: Any) -> Case:
    """A case of attention, with this number of heads of keys and values."""
    operands = [normal(2, 4, 3, 8), normal(2, heads, 5, 8), normal(2, heads, 5, 6)]
    return Case("FlexAttention", operands, PREVIEW, 1, attributes)


def mel(*numbers: float) -> Case:
    """A case of a mel scale: its bins, elements, samples per second, and its edges."""
    operands = [np.array(n, np.int64 if i < 3 else np.float32) for i, n in enumerate(numbers)]
    return Case("MelWeightMatrix", operands)


CASES = [
    *optimizers(np.float32, 0),
    *optimizers(np.float32, 3),
    # the reference's Adam rounds to float32
    *optimizers(np.float64, 3)[:-1],
    attention(heads=2, scale=0.25),
    attention(heads=1, score_mod=scores_graph("Mul", 3), prob_mod=scores_graph("Add", 0.5)),
    attention(heads=4, softmax_precision=TensorProto.DOUBLE),
    *(Case("Det", [normal(*shape)]) for shape in ((1, 1), (5, 5), (2, 3, 4, 4), (0, 2, 2))),
    Case("Einsum", [normal(3, 3, 4), normal(5, 4, 5)], attributes={"equation": "iij,kjk->ik"}),
    Case("Einsum", [normal(2, 3, 2, 3)], attributes={"equation": "ijij->ji"}),
    Case("Einsum", [normal(4, 3, 3)], attributes={"equation": "...ii"}),
    Case(
        "Dropout",
        [normal(3, 5), np.array(0.25, np.float32), np.array(True)],
        outputs=2,
        attributes={"seed": 7},
    ),
    Case("RandomUniform", [], attributes={"shape": [3, 4], "low": -2.0, "seed": 3.0}),
    Case("RandomNormalLike", [normal(2, 3)], attributes={"mean": 1.0, "seed": 5.0, "dtype": 11}),
    mel(8, 64, 8192, 20, 4000),
    mel(3, 9, 100, 0, 10),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_as_the_reference(case: Case) -> None:
    proto, feeds = case.model()
    wanted = [np.asarray(y) for y in ReferenceEvaluator(proto).run(None, feeds)]
    same(tessella.compile(proto).run(None, feeds), wanted)


def test_a_determinant_needs_pivots() -> None:
    numbers = np.array([[[0, 2], [3, 1]], [[0, 0], [0, 5]], [[np.nan, 1], [1, 1]]], np.float32)
    [found] = run(Case("Det", [numbers]).model()[0], {"x0": numbers})
    np.testing.assert_array_equal(found, np.array([-6, 0, np.nan], np.float32))


def test_a_diagonal_leaves_out_other_elements() -> None:
    x = np.array([[1, np.nan], [np.inf, 2]], np.float32)
    [found] = run(Case("Einsum", [x], attributes={"equation": "ii->i"}).model()[0], {"x0": x})
    np.testing.assert_array_equal(found, np.array([1, 2], np.float32))


@pytest.mark.parametrize(
    "case, error, text",
    [
        (Case("Momentum", updates(3, "f4", 0)[:-1], TRAINING, 4, {**DECAYS, "mode": "standard"}),
         InvalidModelError, "a multiple of 3"),
        (Case("Det", [normal(2, 3)]), ShapeError, "square"),
        (Case("FlexAttention", [normal(1, 3, 2, 4), *[normal(1, 2, 2, 4)] * 2], PREVIEW),
         ShapeError, "3 by 2"),
        (Case("Einsum", [normal(3, 2)], attributes={"equation": "ii"}), ShapeError, "3 and 2"),
        (Case("Dropout", [normal(3), np.array(2, np.float32), np.array(True)]),
         ShapeError, "not a share"),
        (Case("RandomNormal", [], attributes={"shape": [2, -1]}), InvalidModelError, "a shape"),
        (Case("Multinomial", [normal(3, 0)]), ShapeError, "no classes"),
        (mel(8, 64, 8192, 4000, 20), ShapeError, "not a mel scale"),
    ],
    ids=lambda x: x.op if isinstance(x, Case) else "",
)  # fmt: skip
def test_errors(case: Case, error: type[TessellaError], text: str) -> None:
    proto, feeds = case.model()
    with pytest.raises(error, match=text):
        run(proto, feeds)
