"""Passes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from acme.ops import SquareplusOp
from tessella.dialects.nn.elementwise import SqrtOp
from tessella.passes.kinds import DebugPass


@dataclass(frozen=True)
class CheckSquareplusPass(DebugPass):
    """Print what became a squareplus, and the square roots that stayed."""

    name = "acme-check-squareplus"
    excluded_devices = ("opencl",)
    needed_kernels = ("acme.squareplus",)
    runs_after = "fuse-patterns"

    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        """Write a line for each op to stderr."""
        for op in module.walk():
            if isinstance(op, SquareplusOp | SqrtOp):
                sys.stderr.write(f"{self.name}: {op.name} {op.node}\n")
