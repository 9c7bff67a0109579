"""Decision trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr, TensorType
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import (
    check_choice,
    check_float,
    check_index,
    check_least,
    check_same_element,
    check_shape,
)
from tessella.dialects.nn.core import Defaults, NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product

AGGREGATES = ("sum", "min", "max")


@irdl_op_definition
class TreeEnsembleOp(NnOp):
    """An aggregate over decision trees: the sum, minimum or maximum (`aggregate`) of the values of
    the nodes that each row of x[rows, features] reaches. The result is [rows, targets].

    Nodes are rows of `thresholds`, `links` and `values`. The roots of the `trees` come first. A row
    of x takes `levels` steps in every tree, and each step compares in the same way:

    - `thresholds[node]` is compared with the element `links[node] mod 2**bits` of the row. A link
      is an integer of i32 or i64, which is read without a sign.
    - If the element is at most the threshold, the row goes to the node `(links[node] >> bits) + 1`,
      otherwise, which includes a NaN, to `links[node] >> bits`.
    - A leaf has the threshold NaN and leads to itself. `values[node]` has a value for each target.

    A number out of range stands for the last node, or the last element, so nothing is checked at
    run time. Nodes that compare otherwise (`x < t`, `x >= t`, `x == t`, membership in a set) have
    to be written in this form, as the importer of ONNX does (`frontends/onnx/ops/ml/forest.py`).
    """

    name = "nn.tree_ensemble"
    DEFAULTS: ClassVar[Defaults] = {"aggregate": "sum"}
    x = operand_def(base(TensorType))
    thresholds = operand_def(base(TensorType))
    links = operand_def(base(TensorType))
    values = operand_def(base(TensorType))
    trees = prop_def(IntegerAttr[I64])
    levels = prop_def(IntegerAttr[I64])
    bits = prop_def(IntegerAttr[I64])
    aggregate = prop_def(StringAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        settings, rows, values = self.settings, shape_of(self.x), shape_of(self.values)
        check_float(self, self.x)
        check_same_element(self, [self.x, self.thresholds, self.values])
        check_index(self, self.links)
        check_choice(self, "aggregate", settings["aggregate"], AGGREGATES)
        check_least(self, "trees, levels and bits", [settings["trees"], settings["bits"]], 1)
        check_least(self, "levels", [settings["levels"]], 0)
        for value in (self.thresholds, self.links):
            check_shape(self, value, values[:1])
        is_flat = len(rows) == 2 == len(values)
        if not (is_flat and all(decided(n > 0) for n in (rows[1], *values))):
            raise ShapeError(
                f"{self.name}: rows with features, and nodes with values are needed",
                expected="x [rows, features] and values [nodes, targets]",
                found=f"x {self.x.type}, values {self.values.type}",
            )
        if settings["bits"] > 31:
            raise ShapeError(f"{self.name}: bits is out of range", expected="in [1, 31]")
        return [tensor(tensor_type(self.x).element_type, (rows[0], values[1]))]

    @property
    def operations(self) -> Size:
        steps = 4 * self.settings["levels"] * self.settings["trees"] * shape_of(self.x)[0]
        return steps + self.settings["trees"] * product(shape_of(self.res))
