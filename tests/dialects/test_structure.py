"""Operations are equal by what they do, not by the names of values."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.ir import Operation
from xdsl.parser import Parser

from tessella.dialects.structure import structure

BASE = """
func.func @f(%a: f32, %b: f32, %c: i1) {
  %x = arith.addf %a, %b : f32
  %k = arith.constant 0.0 : f32
  scf.if %c {
    %y = arith.mulf %x, %k : f32
    scf.yield
  }
  %z = arith.mulf %x, %x : f32
  func.return
}
"""


def parsed(text: str) -> Operation:
    ctx = Context()
    for dialect in (Builtin, Arith, Func, Scf):
        ctx.load_dialect(dialect)
    op = Parser(ctx, text).parse_module().body.block.first_op
    assert op is not None
    return op


def test_names_of_values_do_not_matter() -> None:
    text = BASE.replace("%x", "%sum").replace("%a", "%left").replace("%y", "%0")
    assert structure(parsed(text)) == structure(parsed(BASE))
    assert hash(structure(parsed(text))) == hash(structure(parsed(BASE)))


@pytest.mark.parametrize(
    "old, new",
    [
        ("addf %a, %b", "addf %b, %a"),
        ("addf %a, %b", "subf %a, %b"),
        ("constant 0.0", "constant -0.0"),
        ("constant 0.0", "constant 1.0"),
        ("@f", "@g"),
        ("%b: f32", "%b: f32, %d: f32"),
        ("mulf %x, %k", "mulf %a, %k"),
        ("%k : f32\n", "%k {marked} : f32\n"),
        ("scf.yield\n  }\n  %z = arith.mulf %x, %x : f32", "%z = arith.mulf %x, %x : f32\n}"),
        ("f32", "f64"),
        ("}\n  %z", "} else {\n scf.yield\n }\n  %z"),
    ],
)
def test_all_else_does(old: str, new: str) -> None:
    changed = BASE.replace(old, new)
    assert changed != BASE
    assert structure(parsed(changed)) != structure(parsed(BASE))


def test_values_from_outside_are_themselves() -> None:
    function = parsed(BASE)
    block = function.regions[0].block
    one, _, branch, other, _ = block.ops
    assert structure(one) == structure(one.clone())
    assert structure(one) != structure(other)
    assert structure(branch) == structure(branch.clone())
