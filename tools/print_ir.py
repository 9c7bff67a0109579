"""The options `--print-ir-before` and `--print-ir-after`: IR around passes, on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessella.dialects.graph import Graph
from tessella.dialects.printing import to_text
from tessella.driver.build.run_passes import PassObserver
from tessella.support.errors import OptionError
from tessella.support.ir_diff import ir_diff
from tessella.support.names import did_you_mean

_WHEN = ("before", "after")


def add_print_ir(parser: argparse.ArgumentParser) -> None:
    """Add the options that print the IR around passes."""
    group = parser.add_argument_group("the IR around passes, to stderr")
    for when in _WHEN:
        group.add_argument(
            f"--print-ir-{when}", metavar="PASS,..", help=f"print the IR {when} these passes"
        )
        group.add_argument(
            f"--print-ir-{when}-all", action="store_true", help=f"print the IR {when} each pass"
        )
    group.add_argument(
        "--print-ir-after-change",
        action="store_true",
        help="print the changes that each pass makes, as diff -u does",
    )


PRINT_IR = (
    *(f"print_ir_{when}{all_}" for when in _WHEN for all_ in ("", "_all")),
    "print_ir_after_change",
)
"""The names of the options in the namespace of arguments."""


class IrPrinter(PassObserver):
    """Prints the IR around passes, or "(unchanged)" after a pass without effect.

    Raises OptionError if an option names a pass that does not run.
    """

    def __init__(self, args: argparse.Namespace, steps: Sequence[ModulePass]) -> None:
        names = [step.name for step in steps]
        self._before, self._after = (_chosen(args, when, names) for when in _WHEN)
        self._changes = names if args.print_ir_after_change else ()
        self._text = ""

    def before(self, step: ModulePass, graph: Graph) -> None:
        if step.name in {*self._before, *self._after, *self._changes}:
            self._text = to_text(graph.module)
        if step.name in self._before:
            _print(_title("Before", step), self._text)

    def after(self, step: ModulePass, graph: Graph) -> None:
        if step.name in self._after:
            text = to_text(graph.module)
            _print(_title("After", step), "(unchanged)" if text == self._text else text)
        elif step.name in self._changes:
            _print_change(step, self._text, graph.module)


def _chosen(args: argparse.Namespace, when: str, names: Sequence[str]) -> Sequence[str]:
    """Return the names of the passes that ``--print-ir-before`` or ``--print-ir-after`` selects;
    ``when`` is ``before`` or ``after``. Raises OptionError for a pass that does not run."""
    if getattr(args, f"print_ir_{when}_all"):
        return names
    named: str | None = getattr(args, f"print_ir_{when}")
    chosen = named.split(",") if named is not None else []
    for name in chosen:
        if name not in names:
            raise OptionError(
                f"--print-ir-{when}: no pass {name!r} runs",
                expected=f"some of {', '.join(dict.fromkeys(names))}",
                hint=did_you_mean(name, names),
            )
    return chosen


def _print_change(step: ModulePass, before: str, module: ModuleOp) -> None:
    after = to_text(module)
    if after != before:
        _print(_title("After", step), *ir_diff(before, after))


def _title(when: str, step: ModulePass) -> str:
    return f"// -----// IR Dump {when} {type(step).__name__} ({step.name}) //----- //"


def _print(*lines: str) -> None:
    print(*lines, "", sep="\n", file=sys.stderr)
