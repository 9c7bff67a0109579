"""Print the type and the place of each operand and result, on stderr.

%1 = nn.relu %x {node = "relu1"} : tensor<4x8xf32>
->
the same, and on stderr

nn.relu relu1
  operand 0  tensor<4x8xf32>
  result 0   tensor<4x8xf32>
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tessella.dialects.nn.core import NnOp
from tessella.passes.kinds import DebugPass


@dataclass(frozen=True)
class PrintTypesPass(DebugPass):
    """Print the types and places of operands and results."""

    name = "print-types"

    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        for op in module.walk():
            if op.operands or op.results:
                sys.stderr.writelines(f"{line}\n" for line in _lines(op))


def _lines(op: Operation) -> Iterator[str]:
    node = op.node if isinstance(op, NnOp) else op.name
    yield op.name if node == op.name else f"{op.name} {node}"
    for kind, values in (("operand", op.operands), ("result", op.results)):
        for i, value in enumerate(values):
            yield f"  {f'{kind} {i}':10} {value.type}"
