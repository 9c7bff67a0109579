"""Print how often each op occurs, on stderr, as mlir-opt's pass of this name does.

%1 = nn.relu %x
%2 = nn.add %1, %x
%3 = nn.relu %2
->
the same, and on stderr

Operations encountered:
  nn.add   1
  nn.relu  2
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tessella.passes.kinds import DebugPass


@dataclass(frozen=True)
class PrintOpStatsPass(DebugPass):
    """Print how often each op occurs."""

    name = "print-op-stats"

    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        counts = Counter(op.name for op in module.walk() if op is not module)
        width = max(map(len, counts), default=0)
        sys.stderr.write("Operations encountered:\n")
        sys.stderr.writelines(f"  {name:{width}}  {counts[name]}\n" for name in sorted(counts))
