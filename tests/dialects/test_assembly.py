"""The text of `nn` ops: what is printed is read again, and defaults are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    bf16,
    f16,
    f32,
    f64,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp, PyValue, tensor, to_attribute
from tessella.driver.stages.stage_file import stage_context

RANK = 4
VALUES: Sequence[PyValue] = (
    0, -1, 1 << 40, True, False, 0.0, -0.0, 1.0, -2.5, 1e-5, 1e300, 0.1 + 0.2, 5e-324,
    math.inf, -math.inf, (), (1, -2), (0.5, math.inf, -math.inf, 1e-7), "", 'a "word"', "true",
    f16, bf16,
)  # fmt: skip
ODD: Sequence[Attribute] = (
    IntegerAttr(1, i32), FloatAttr(1.0, f32), FloatAttr(math.nan, f64), ArrayAttr([]),
    DenseArrayBase.from_list(f64, []), DenseArrayBase.from_list(i32, [1]),
)  # fmt: skip
"""Values without a short form."""


def _module(kind: type[NnOp], **properties: Attribute) -> ModuleOp:
    """A module with the op on one operand."""
    type = tensor(f32, (2,) * RANK)
    block = Block(arg_types=[type])
    properties = {**kind.defaults(RANK), **properties}
    op = kind.create(operands=block.args, result_types=[type], properties=properties)
    block.add_ops([op, ReturnOp()])
    return ModuleOp([FuncOp("main", ([type], []), Region(block))])


def _read(text: str) -> ModuleOp:
    return Parser(stage_context(), text).parse_module()


def _kinds() -> list[type[NnOp]]:
    return [op for op in nn.Nn.operations if issubclass(op, NnOp) and op.LEADING is None]


@pytest.mark.parametrize("value", [*VALUES, *ODD], ids=str)
def test_a_setting_is_read_again(value: PyValue) -> None:
    module = _module(nn.CumsumOp, axis=to_attribute(value))
    read = _read(str(module))
    assert str(read) == str(module)
    assert read.is_structurally_equivalent(module) or "0x7ff8" in str(module)
    assert ("{axis" in str(module)) == (value in ODD)


@pytest.mark.parametrize("kind", _kinds(), ids=lambda kind: kind.name)
def test_defaults_are_left_out(kind: type[NnOp]) -> None:
    module = _module(kind)
    assert f"{kind.name} %0 : tensor" in str(module)
    assert _read(str(module)).is_structurally_equivalent(module)


def test_settings_come_in_the_order_of_the_class() -> None:
    text = str(_module(nn.ConvOp, groups=to_attribute(2), pads=to_attribute((1, 1, 1, 1))))
    assert "nn.conv %0 pads [1, 1, 1, 1] groups 2 : tensor<2x2x2x2xf32>" in text


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("nn.relu %y : tensor<2xf32>", "%y is used before it is defined"),
        ("nn.relu %x#1 : tensor<2xf32>", "%x is used before it is defined"),
        ("nn.relu %x depth 1 : tensor<2xf32>", "Expected ':'"),
        ("nn.softmax %x axis 0 axis 0 : tensor<2xf32>", "Expected ':'"),
        ("nn.softmax %x axis - : tensor<2xf32>", "expected a number after '-'"),
        ("nn.softmax %x axis [true] : tensor<2xf32>", "expected a number"),
        ("nn.relu %x -> tensor<2xf32>", "Expected ':'"),
    ],
)
def test_what_cannot_be_read(text: str, wanted: str) -> None:
    with pytest.raises(ParseError, match=re.escape(wanted)):
        _read(f"func.func @main(%x: tensor<2xf32>) {{\n  %y = {text}\n  func.return\n}}")


def test_an_invalid_op_can_be_printed() -> None:
    number = test.TestOp(result_types=[f32])
    op = nn.SoftmaxOp.create(operands=number.results, result_types=[f32])
    assert "nn.softmax" in str(op)
