"""Types inferred by `nn` ops: from the table in the documentation to hostile settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import Float32Type, TensorType, bf16, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import nn
from tessella.dialects.nn.core import (
    NnOp,
    broadcast_shapes,
    element_type,
    normalise_axis,
    shape_of,
    tensor,
    to_attribute,
    to_python,
)
from tessella.runtime.host import KERNELS
from tessella.support.errors import InternalError, ShapeError

DOCUMENT = Path(__file__).parents[2] / "docs" / "nn-ops.md"
OPS: dict[str, type[NnOp]] = {
    op.name: op for op in nn.Nn.operations if issubclass(op, NnOp)
}
COMPUTED = [op for op in OPS.values() if not issubclass(op, nn.ConstantOp)]


def operands(*shapes: tuple[int, ...], element: Attribute = f32) -> list[SSAValue]:
    return list(Block(arg_types=[TensorType(element, shape) for shape in shapes]).args)


def typed(*types: tuple[Attribute, tuple[int, ...]]) -> list[SSAValue]:
    return list(Block(arg_types=[TensorType(e, shape) for e, shape in types]).args)


def documented() -> dict[str, tuple[list[str], list[str]]]:
    """Operands and properties of each op, as the table in the documentation lists them."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for line in DOCUMENT.read_text().splitlines():
        if not line.startswith("| ") or line.startswith(("| op ", "| elementwise", "| weight")):
            continue
        names, inputs, properties, _ = (cell.strip() for cell in line.strip("|").split("|"))
        # a word before `:` says names, what follows up to the next comma their type or values
        listed = re.findall(r"\w+", re.sub(r":[^,;]*", "", re.sub(r"\(.*\)", "", properties)))
        inputs = re.findall(r"\w+", re.sub(r"\(.*?\)", "", inputs))
        first, *more = re.findall(r"\w+", names)
        prefix = first.rsplit("_", 1)[0]
        for name in (first, *(f"{prefix}{m}" if m.startswith("_") else m for m in more)):
            rows[f"nn.{name}"] = (inputs, listed)
    return rows


def test_every_op_has_a_numpy_kernel() -> None:
    assert {op.name for op in COMPUTED} == set(KERNELS)


def test_ops_are_sorted_and_unique() -> None:
    names = [op.name for op in nn.Nn.operations]
    assert names == sorted(set(names))
    assert {"nn.conv", "nn.weight", "nn.fused", "nn.yield"} <= set(names)
