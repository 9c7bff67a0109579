"""What `tessella-opt` prints between passes: the IR, and times."""

from __future__ import annotations

import argparse
import sys

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessella.dialects.printing import to_text
from tessella.driver.compiling import Timings
from tessella.tools.ir_diff import ir_diff
from tessella.tools.time_report import time_report


class Dumper:
    """Prints the IR after passes, as the options say; "(unchanged)" where a pass did nothing."""

    def __init__(self, args: argparse.Namespace, count: int) -> None:
        self.between: bool = args.print_between_passes
        self.after_all: bool = args.mlir_print_ir_after_all
        self.after_change: bool = args.mlir_print_ir_after_change
        self.times: bool = args.time_passes
        self.left = count
        self.timings = Timings()
        self.text = ""

    def start(self, module: ModuleOp) -> None:
        """Remember what the first pass meets."""
        self.text = self._print(module)

    def after(self, step: ModulePass, module: ModuleOp, seconds: float) -> None:
        """Print what is wanted after a pass."""
        self.left -= 1
        self.timings[step.name] = self.timings.get(step.name, 0.0) + seconds
        old, self.text = self.text, self._print(module)
        text = "(unchanged)" if self.text == old else self.text
        if self.between and self.left:
            print(f"IR after {step.name}:\n{text}\n")
        title = f"// -----// IR Dump After {type(step).__name__} ({step.name}) //----- //"
        if self.after_all:
            print(f"{title}\n{text}\n", file=sys.stderr)
        elif self.after_change and self.text != old:
            print(title, *ir_diff(old, self.text), "", sep="\n", file=sys.stderr)

    def finish(self) -> None:
        """Print the times of all passes, if they are wanted."""
        if self.times:
            print(*time_report(self.timings), sep="\n", file=sys.stderr)

    def _print(self, module: ModuleOp) -> str:
        wanted = self.between or self.after_all or self.after_change
        return to_text(module) if wanted else ""
