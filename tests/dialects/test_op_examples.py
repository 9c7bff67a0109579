"""The table of examples has each op."""

from __future__ import annotations

from tessella.dialects import nn
from tests.op_examples import EXAMPLES, needs_example


def test_every_op_has_an_example() -> None:
    missing = {op.name for op in nn.Nn.operations if needs_example(op)} - {x.name for x in EXAMPLES}
    assert not missing, "add a row to ROWS of tests/op_examples.py"
