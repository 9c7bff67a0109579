"""Types with symbols as text."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.printing import to_text
from tessella.dialects.sizes import SYMBOLS, number_of, symbols_in
from tessella.driver.stages.located import LocatedError, LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.support.sizes import Symbol

TEXT = """\
builtin.module attributes {symbols = [#nn.symbol<batch, 2 to 64>, #nn.symbol<seq, 16 to 512>]} {
  func.func @main(%x: tensor<[batch]x[2 * seq + 1]x4xf32>) -> tensor<[batch]x[2 * seq + 1]x4xf32> {
    %y = nn.relu %x : tensor<[batch]x[2 * seq + 1]x4xf32>
    func.return %y : tensor<[batch]x[2 * seq + 1]x4xf32>
  }
  func.func private @r(memref<[8 * ((seq + 15) floordiv 16)]xf32>, tensor<[batch * seq]xi1>) -> ()
}"""


def parsed(text: str) -> ModuleOp | LocatedError:
    return LocatedParser(stage_context(), text, "text").parse()


def test_text_is_read_back() -> None:
    module = parsed(TEXT)
    assert not isinstance(module, LocatedError)
    module.verify()
    assert to_text(module, wrap=False) == TEXT
    assert symbols_in(module) == (Symbol("batch", 2, 64), Symbol("seq", 16, 512))
    relu = next(op for op in module.walk() if op.name == "nn.relu")
    assert [number_of(relu, name) for name in ("batch", "seq", "other")] == [0, 1, None]
    assert SYMBOLS in module.attributes


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("[batch]x[2", "[sequence]x[2", "declares no symbol 'sequence'"),
        ("2 to 64", "64 to 2", "has no value from 64 to 2"),
        ("2 * seq", "2 * ", "expected a size"),
        ("floordiv 16", "floordiv seq", "integer"),
        ("floordiv 16", "floordiv 0", "a divisor of at least 1"),
        ("[batch]x", "[batch x", "Expected ']'|']' expected"),
    ],
)
def test_broken_text(old: str, new: str, message: str) -> None:
    problem = parsed(TEXT.replace(old, new, 1))
    assert isinstance(problem, LocatedError)
    assert re.search(message, problem.message), problem


def test_types_disagree() -> None:
    given, arrow, rest = TEXT.partition("->")
    module = parsed(given + arrow + rest.replace("<[batch]x", "<[seq]x"))
    assert not isinstance(module, LocatedError)
    with pytest.raises(VerifyException, match="expected tensor<\\[batch\\]x"):
        module.verify()
