"""`tessella reduce`: shrink an ONNX model while a command keeps failing on it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from tessella.driver.stages.stage_file import replace_file
from tessella.driver.stages.stages import stage_of
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.tools.commands.numbers import amount
from tessella.tools.commands.shared import add_model, assignments, parse_shape, pattern

if TYPE_CHECKING:
    import onnx

EPILOG = """\
COMMAND is run by sh for each candidate, with its path for {}, or at the end. A candidate is taken
if the command ends with the same exit code as for MODEL, which is not 0. The file that -o names is
replaced each time. All candidates are valid models. The exit code is 0 where the model got smaller,
1 where it did not.

  tessella reduce model.onnx --check 'tessella diff {}'
  tessella reduce model.onnx --check 'tessella run {}' --match 'ValueError'
  tessella reduce model.onnx --check './crashes.sh' --shape x=1x3x224x224 --budget 3600
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "--check",
        required=True,
        metavar="COMMAND",
        help="the command, which fails on the model and must still fail",
    )
    parser.add_argument(
        "--match",
        type=pattern,
        metavar="REGEX",
        help="a pattern that the command's output must also contain",
    )
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="where to write (MODEL's name with .reduced.onnx)"
    )
    parser.add_argument(
        "--budget",
        type=amount,
        default=600,
        metavar="SECONDS",
        help="seconds that the search may take (600)",
    )
    parser.add_argument(
        "--timeout",
        type=amount,
        default=60,
        metavar="SECONDS",
        help="seconds that COMMAND may take (60)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


_NOT_RUN = (126, 127)
"""Exit codes of sh for a missing command, and for one that cannot be run."""

_SHOWN = 200
"""The most characters of the command's output that an error shows."""


class TimeOverError(Exception):
    """The error that the reduction has exceeded its time."""


@dataclass
class Check:
    """The check of candidates, which runs the user's command on a model."""

    command: str
    match: re.Pattern[str] | None
    timeout: float
    code: int | None = None
    """The exit code that a candidate must produce; None before the first run."""
    runs: int = field(default=0, init=False)
    output: str = field(default="", init=False)
    """The output of the last run."""

    def run(self, path: Path) -> bool:
        """Run the command on the model at ``path``. Returns whether it fails with the exit code of
        the first run, and its output matches."""
        self.runs += 1
        code, self.output = _run(self._line(path), self.timeout)
        if self.code is None:
            self.code = code
        if self.match is not None and self.match.search(self.output) is None:
            return False
        return code not in (0, None) and code == self.code

    def _line(self, path: Path) -> str:
        quoted = shlex.quote(str(path))
        if "{}" in self.command:
            return self.command.replace("{}", quoted)
        return f"{self.command} {quoted}"


def _run(line: str, timeout: float) -> tuple[int | None, str]:
    """Run a shell command. Returns the exit code (None after a timeout) and the output."""
    process = subprocess.Popen(
        line,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # for killing all processes of the command
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output.decode(errors="replace")
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, ""
        raise


def run(args: argparse.Namespace) -> int:
    """Return 0 if the model got smaller, otherwise 1."""
    if stage_of(args.model) is not None:
        raise OptionError("only ONNX models are reduced", where=args.model)
    source = open_source(args.model)  # opened before the imports: reports a missing package onnx
    from tessella.frontends.onnx import load_model
    from tessella.tools.reduce import fixed, size_of

    given = assignments("--shape", args.shape, [info.name for info in source.inputs])
    model = fixed(load_model(args.model), {n: parse_shape(text) for n, text in given.items()})
    output = Path(args.output or f"{Path(args.model).stem}.reduced.onnx")
    check = Check(args.check, args.match, args.timeout)
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="tessella-reduce-") as folder:
        smallest, over = _reduced(model, check, Path(folder), output, began + args.budget)
    before, after = size_of(model), size_of(smallest)
    smaller = smallest is not model
    if args.json:
        sizes = {"before": vars(before), "after": vars(after)}
        rest = {"runs": check.runs, "seconds": monotonic() - began, "time_over": over}
        print(json.dumps({"output": str(output) if smaller else None, **sizes, **rest}, indent=2))
    else:
        print(f"from {before}\nto   {after}, in {check.runs} runs")
        print(f"wrote {output}" if smaller else "nothing can be left out")
        if over:
            print("the time was over: with more --budget it may get smaller")
    return int(not smaller)


def _reduced(
    model: onnx.ModelProto, check: Check, folder: Path, output: Path, end: float
) -> tuple[onnx.ModelProto, bool]:
    """Reduce a model while the check fails on it. Returns the smallest model found, and whether
    time ran out. Each smaller model is written to ``output``."""
    from tessella.tools.reduce import Reducer, size_of

    path = folder / "candidate.onnx"

    def fails(candidate: onnx.ModelProto) -> bool:
        if monotonic() > end:
            raise TimeOverError
        path.write_bytes(candidate.SerializeToString())
        if not check.run(path):
            return False
        _write(output, candidate.SerializeToString())
        print(f"{size_of(candidate)}, after {check.runs} runs", file=sys.stderr)
        return True

    path.write_bytes(model.SerializeToString())
    fails_as_it_is = check.run(path)
    if check.code in _NOT_RUN:
        raise OptionError(
            "the command cannot be run",
            found=check.output.strip()[:_SHOWN] or f"exit code {check.code}",
        )
    if not fails_as_it_is:
        raise OptionError(
            "the command does not fail on the model as it is"
            if check.match is None
            else "the command does not fail on the model as it is, or its output does not match",
            found=f"exit code {check.code}",
            hint="it has to end with another exit code than 0, within --timeout",
        )
    reducer = Reducer(model, fails)
    try:
        return reducer.run(), False
    except TimeOverError:
        return reducer.smallest, True


def _write(path: Path, data: bytes) -> None:
    """Replace a file atomically."""
    try:
        replace_file(path, lambda new: new.write_bytes(data))
    except OSError as error:
        raise OptionError(f"cannot write: {error.strerror or error}", where=str(path)) from error
