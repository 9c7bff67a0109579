"""Sums of products: which bodies multiply two operands, and which operands scale blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, f32, i16, i32
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.tile import ContractOp, Index, access, scalar_region
from tessella.dialects.tile.summed import SummedProduct
from tessella.kernels.builder import Scalars
from tessella.kernels.linear import multiply, signed_field

Body = Callable[[Scalars, Sequence[SSAValue]], SSAValue]
Operand = tuple[Attribute, Sequence[str]]

RANGES = {"n": 8, "b": 3, "k": 4}
X, W, S = (f32, "bk"), (f32, "nbk"), (f32, "nb")


def summed(operands: Sequence[Operand], body: Body, aggregation: str = "+") -> SummedProduct | None:
    """The product that a statement over ``n`` sums along ``b`` and ``k``."""
    types = [TensorType(e, [RANGES[name] for name in names]) for e, names in operands]
    block = Block(arg_types=types)
    region = scalar_region([e for e, _ in operands], lambda b, args: body(Scalars(b), args))
    indices = [Index(name, size, reduced=name != "n") for name, size in RANGES.items()]
    read = [(v, access(*names)) for v, (_, names) in zip(block.args, operands, strict=True)]
    op = ContractOp(aggregation, indices, read, access("n"), TensorType(f32, [8]), region)
    op.verify()
    return op.summed


def scaled(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    x, w, *scales = args
    product = multiply(s, (x, w))
    for scale in scales:
        product = multiply(s, (scale, product))
    return product


def test_a_plain_product() -> None:
    found = summed([X, W], scaled)
    assert found is not None
    assert (found.operands, found.scales, found.is_scaled) == ((0, 1), (), False)


def test_scales_of_blocks() -> None:
    found = summed([X, W, S, (f32, "b")], scaled)
    assert found is not None
    assert (found.operands, found.scales) == ((0, 1), (2, 3))
    assert found.blocks == {"b"}


def test_integers_that_are_decoded() -> None:
    def body(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
        x, w, scale = args
        field = s.cast(signed_field(s, w, "k", 4), i32)
        return multiply(s, (s.cast(multiply(s, (s.cast(x, i32), field)), f32), scale))

    found = summed([(i16, "bk"), (i16, "nb"), S], body)
    assert found is not None
    assert found.elements is not None
    assert [e.name for e in found.elements] == ["i16", "i16", "i32"]
    assert found.is_scaled
    assert found.decoding_indices == {"k"}
    assert not found.decoding(0)
    read = {op.name for op in found.decoding(1) if found.reads(op)}
    assert read == {"arith.shli", "arith.shrsi"}


def _twice(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    product = scaled(s, args[:2])
    return multiply(s, (product, s.op(arith.AddfOp(product, args[2]))))


def _shifted(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    return s.op(arith.AddfOp(scaled(s, args[:2]), args[2]))


@pytest.mark.parametrize(
    "operands, body, aggregation",
    [
        ([X, W, (f32, "k")], scaled, ">"),
        ([X, W, (f32, "bk")], scaled, "+"),  # the scale moves as the product does
        ([X, W, S], _twice, "+"),
        ([X, W, S], _shifted, "+"),
        ([X], lambda s, args: multiply(s, (args[0], args[0])), "+"),
    ],
)
def test_near_misses(operands: Sequence[Operand], body: Body, aggregation: str) -> None:
    found = summed(operands, body, aggregation)
    assert found is None or not found.is_scaled
