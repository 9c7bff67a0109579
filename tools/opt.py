"""`tessella-opt`: read IR, run passes on it, print it, as `mlir-opt` does.

It extends xDSL's tool by our dialects, passes and targets. It differs from `xdsl-opt`: errors name
their line, all errors of a file are shown, ``--verify-diagnostics`` compares them with the ``//
expected-error`` comments of the file, and the exit code is 1 if anything failed. Weights are read
from ``x.weights`` if that file is beside the input ``x.mlir``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, ShrinkException
from xdsl.xdsl_opt_main import xDSLOptMain

from tessella import targets
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.printing import to_text
from tessella.driver.build import plugged
from tessella.driver.build.compiling import Timings
from tessella.driver.stages.located import (
    REPORTED,
    LocatedError,
    LocatedParser,
    reason,
    verify_each,
)
from tessella.driver.stages.module_stage import check_stage
from tessella.driver.stages.stage_file import load_weights, weights_path
from tessella.passes.kinds import asked_places, running
from tessella.passes.pick.named_places import expanded
from tessella.runtime.weights import WeightStore
from tessella.support.errors import OptionError, TessellaError
from tessella.support.names import did_you_mean
from tessella.tools.expectations import read_expectations
from tessella.tools.list_passes import describe_passes
from tessella.tools.pipes import drop_output
from tessella.tools.print_ir import IrPrinter, add_print_ir
from tessella.tools.time_report import time_report
from tessella.tools.universe import REPLACED, TESSELLA

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_WHOLE_MODULE = re.compile(r"\s*builtin\.module\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class Chunk:
    """A part of the input that is processed by itself."""

    text: str
    first_line: int


class BrokenError(Exception):
    """The error that a chunk of the input cannot be processed further."""

    def __init__(self, problems: Sequence[LocatedError]) -> None:
        super().__init__(problems)
        self.problems = problems


class OptMain(xDSLOptMain):
    """xDSL's tool with our dialects, passes, targets and options."""

    version_format = "tessella-opt, on xdsl {xdsl_version}"

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.exit_code = 0
        super().__init__("Runs passes on IR, as mlir-opt does.", args)

    # ** dialects, passes, targets and options **

    def register_all_dialects(self) -> None:
        # The base class has just created a plain context, which holds no weights.
        self.ctx = self._context = CompileContext()
        ours = XDSL_UNIVERSE.all_dialects | TESSELLA.all_dialects
        known = Universe.get_multiverse().all_dialects | ours | plugged.dialects(ours)
        for name, factory in known.items():
            replaced = REPLACED.get(name)
            self.ctx.register_dialect(name, replaced.load if replaced else factory)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        ours = TESSELLA.all_passes | plugged.passes(XDSL_UNIVERSE.all_passes | TESSELLA.all_passes)
        self._listed = {"tessella and plugins": ours, "xDSL": self.available_passes}
        self.available_passes = self.available_passes | ours

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets |= TESSELLA.all_targets

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "tessella-opt"
        add_print_ir(arg_parser)
        # Some of xDSL's options mean something else here.
        group = arg_parser.add_argument_group("as mlir-opt has them", conflict_handler="resolve")
        for name, (text, options) in _OPTIONS.items():
            group.add_argument(name, help=text, **options)

    def setup_pipeline(self) -> None:
        if self.args.pass_pipeline and self.args.passes:
            raise OptionError(
                "-p and --pass-pipeline both name passes",
                found=f"-p {self.args.passes}, --pass-pipeline {self.args.pass_pipeline}",
                hint="give one of them",
            )
        text: str = self.args.pass_pipeline or self.args.passes
        whole = _WHOLE_MODULE.fullmatch(text)
        try:
            text = whole[1] if whole else text
            for spec in parse_pipeline(text):
                self._check_pass(spec.name)
            pipeline = PassPipeline.parse_spec(self.available_passes, text)
        except (ValueError, ArgSpecParseError) as error:
            raise OptionError(f"cannot read the pipeline: {error}", where=text) from error
        self.pipeline = PassPipeline(tuple(self._running(pipeline.passes)))

    def _running(self, steps: Sequence[ModulePass]) -> Sequence[ModulePass]:
        """Return those passes of ``steps`` that run for the devices of ``--places``; all passes
        without the option."""
        if not self.args.places:
            return steps
        arch = targets.native().arch
        asked = asked_places(expanded(self.args.places.split(","), arch), arch)
        return running(steps, asked, named=[step.name for step in steps])

    def _check_pass(self, name: str) -> None:
        if name not in self.available_passes:
            raise OptionError(
                f"unknown pass {name!r}",
                hint=did_you_mean(name, self.available_passes) or "--list-passes lists them all",
            )

    # ** processing the input **

    def run(self) -> None:
        """Process the input and set ``exit_code``."""
        if self.args.list_passes:
            print(*describe_passes(self._listed), sep="\n")
            return
        text = self._read()
        weights = self._weights()
        outputs: list[str] = []
        for chunk in _chunks(text) if self.args.split_input_file else [Chunk(text, 1)]:
            self._context.weights = weights.copy()
            output, problems = self._process(chunk)
            outputs.append(output)
            if self.args.verify_diagnostics:
                problems = read_expectations(chunk.text, chunk.first_line).compare(problems)
            self._report(problems, text)
        self._write("// -----\n".join(outputs))

    def _read(self) -> str:
        if self.args.input_file in (None, "-"):
            return sys.stdin.read()
        try:
            return Path(self.args.input_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"cannot read the input: {error}") from error

    def _weights(self) -> WeightStore:
        """Return the weights in the file beside the input. The store is empty if there is no file,
        as most passes need no weights."""
        if self.args.input_file in (None, "-"):
            return WeightStore()
        return load_weights(weights_path(self.args.input_file))

    def _process(self, chunk: Chunk) -> tuple[str, list[LocatedError]]:
        """Parse and verify a chunk and run the passes on it. Returns the output, which is empty
        after an error, and the errors."""
        parser = LocatedParser(self.ctx, chunk.text, self.get_input_name(), chunk.first_line)
        try:
            module = self._parse(parser)
            self._verify(module, parser)
            self._run_passes(module, parser)
            return self.output_resulting_program(module), []
        except BrokenError as error:
            return "", list(error.problems)
        except REPORTED as error:
            return "", [LocatedError(None, str(error))]

    def _parse(self, parser: LocatedParser) -> ModuleOp:
        if parser.at_end():
            return ModuleOp([])  # as in mlir-opt: a chunk may consist of comments
        module = parser.parse(implicit_module=not self.args.no_implicit_module)
        if isinstance(module, LocatedError):
            raise BrokenError([module])
        return module

    def _verify(self, module: ModuleOp, parser: LocatedParser, after: str = "") -> None:
        if self.args.disable_verify:
            return
        problems = [
            _problem(op, error, parser.lines.get(op), after) for op, error in verify_each(module)
        ]
        if problems:
            raise BrokenError(problems)

    def _run_passes(self, module: ModuleOp, parser: LocatedParser) -> None:
        printer, timings = IrPrinter(self.args, self.pipeline.passes), Timings()
        graph = Graph(module, self._context.weights)
        for i, step in enumerate(self.pipeline.passes):
            printer.before(step, graph)
            with timings.of(step.name):
                self._run_pass(step, module, self.pipeline.passes[:i])
            printer.after(step, graph)
            self._verify(module, parser, step.name)
        if self.args.time_passes:
            print(*time_report(timings), sep="\n", file=sys.stderr)

    def _run_pass(self, step: ModulePass, module: ModuleOp, done: Sequence[ModulePass]) -> None:
        try:
            check_stage(step, module, done)
            with plugged.blamed(step):
                step.apply(self.ctx, module)
        except REPORTED as error:
            raise BrokenError([LocatedError(None, f"{step.name}: {error}")]) from error
        except Exception as error:
            error.add_note(f"tessella-opt: in the pass {step}")
            raise

    # ** output **

    def output_resulting_program(self, prog: ModuleOp) -> str:
        """Return the text of a chunk: IR with aliases, or another target's output."""
        args = self.args
        if args.target != "mlir" or any(getattr(args, name) for name in _AS_XDSL):
            return super().output_resulting_program(prog)
        return to_text(prog, generic=args.print_op_generic, wrap=False) + "\n"

    def _report(self, problems: Sequence[LocatedError], text: str) -> None:
        lines = text.split("\n")
        for problem in problems:
            self.exit_code = 1
            where = self.get_input_name()
            if problem.line is None:
                print(f"{where}: error: {problem.message}", file=sys.stderr)
                continue
            print(f"{where}:{problem.line}: error: {problem.message}", file=sys.stderr)
            if problem.line <= len(lines):
                print(f"    {lines[problem.line - 1].strip()}", file=sys.stderr)

    def _write(self, output: str) -> None:
        if self.args.output_file in (None, "-"):
            sys.stdout.write(output)
        elif not self.exit_code:
            Path(self.args.output_file).write_text(output, encoding="utf-8")


def _chunks(text: str) -> Iterator[Chunk]:
    """Yield the parts between lines `// -----`."""
    start = 0
    for mark in _SPLIT.finditer(text):
        yield Chunk(text[start : mark.start()], 1 + text.count("\n", 0, start))
        start = mark.end()
    yield Chunk(text[start:], 1 + text.count("\n", 0, start))


def _problem(op: Operation, error: Exception, line: int | None, after: str) -> LocatedError:
    message = reason(error)
    if op.name not in message:
        message = f"{op.name}: {message}"
    if after:
        message = f"after {after}: {message}"
    return LocatedError(line, message if line is not None else f"{message}\n  {_excerpt(op)}")


def _excerpt(op: Operation) -> str:
    """Return the first line of an op's text, which errors show for an op that is not in the
    input."""
    return str(op).partition("\n")[0]


_AS_XDSL = ("print_no_properties", "print_debuginfo", "syntax_highlight")
"""Printing options that only xDSL's printer supports."""

_FLAG = {"action": "store_true", "default": False}
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "--verify-diagnostics": (
        "compare the errors with the `// expected-error@+1 {{text}}` comments of the input",
        _FLAG,
    ),
    "--pass-pipeline": ("mlir-opt's name of --passes; may be in builtin.module(...)", {}),
    "--print-between-passes": (
        "xDSL's name of --print-ir-after-all",
        {**_FLAG, "dest": "print_ir_after_all"},
    ),
    "--time-passes": ("print a table of the passes with their times, to stderr", _FLAG),
    "--places": (
        "skip the passes that are not for the devices of these places, as x86/f32,host",
        {},
    ),
    "--list-passes": ("list all passes with what they declare and their options, and stop", _FLAG),
}


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool. The exit code is 0, or 1 if anything failed, as for mlir-opt."""
    try:
        tool = OptMain(args)
        tool.run()
        print(end="", flush=True)
    except TessellaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        print(f"error: the system refuses: {error.strerror or error}", file=sys.stderr)
        drop_output()
        return 1
    except ShrinkException:
        print("Success, can shrink")
        return 0
    except SystemExit as stop:  # argparse: --help and --version, or a wrong option
        return 1 if stop.code else 0
    return tool.exit_code


if __name__ == "__main__":
    sys.exit(main())
