"""What becomes an op of this package.

0.5 * (x + sqrt(x * x + b))  for b >= 0  ->  squareplus x
"""

from __future__ import annotations

from acme.ops import SquareplusOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import AddOp, SqrtOp
from tessella.passes.patterns import register
from tessella.passes.patterns.nodes import AnyValue, Number, Product, op
from tessella.passes.patterns.pattern import Match, Pattern

x = AnyValue("x")
_SQUARE = op(AddOp, Product((x, x)), Number(name="b"))


def _squareplus(m: Match) -> NnOp | None:
    b = float(m.number("b"))
    return m.make(SquareplusOp, m["x"], b=b) if b >= 0 else None


register(
    Pattern(
        "acme-squareplus",
        Product((op(AddOp, x, op(SqrtOp, _SQUARE)),), scale=0.5),
        _squareplus,
    )
)
