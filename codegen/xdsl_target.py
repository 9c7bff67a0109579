"""`-t tessella-llvm`: LLVM IR text of the kernels and segments of a module, for `tessella-opt`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from tessella import targets
from tessella.codegen.emit import emit


@dataclass(frozen=True)
class LLVMTarget(Target):
    """`tessella-llvm{machine=avx2}`: one LLVM module for each kernel and segment, in order."""

    name = "tessella-llvm"

    machine: str = "avx512"
    """The target to write for. The default is a fixed one, which gives the same output on every
    machine."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the texts, each after a comment line with its name."""
        for name, text in emit(module, targets.get(self.machine)).items():
            print(f"; {name}\n{text}", file=output)
