"""`// RUN:` lines of filecheck tests, run in this process: what they start most often is Python."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from filecheck.main import main as filecheck
from xdsl.ir import Attribute

from tessella.tools.opt import main as tessella_opt

FOLDER = Path(__file__).parent / "filecheck"

_RUN = re.compile(r"// RUN: (.*)")
_TEMPORARY = re.compile(r"%t\b")
_OUT, _ERR, _NULL = "out", "err", "null"


def _filecheck(args: Sequence[str]) -> int:
    try:
        filecheck(["filecheck", *args])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


TOOLS: dict[str, Callable[[Sequence[str]], int]] = {
    "tessella-opt": tessella_opt,
    "filecheck": _filecheck,
}
"""The commands that are Python functions."""


def commands(file: Path) -> list[str]:
    """The commands of a file, without what lit puts in."""
    config = SimpleNamespace(environment={"PATH": ""}, substitutions=[])
    runpy.run_path(str(FOLDER / "lit.cfg"), init_globals={"config": config})
    lines: list[str] = _RUN.findall(file.read_text(encoding="utf-8"))
    for old, new in [*config.substitutions, ("%s", str(file))]:
        lines = [line.replace(old, new) for line in lines]
    return lines


@dataclass(frozen=True)
class Stage:
    """A command of a pipe."""

    tool: str
    args: Sequence[str]
    fails: bool
    """True if it has to: `not`."""
    out: str = _OUT
    """Where standard output goes."""
    err: str = _ERR

    @staticmethod
    def of(words: Sequence[str]) -> Stage:
        fails = words[0] == "not"
        tool, *rest = words[fails:]
        args: list[str] = []
        to = {"1": _OUT, "2": _ERR}
        for word in rest:
            # from left to right, as a shell does
            if word == "2>&1":
                to["2"] = to["1"]
            elif word in (">/dev/null", "2>/dev/null"):
                to["2" if word[0] == "2" else "1"] = _NULL
            else:
                args.append(word)
        return Stage(tool, args, fails, to["1"], to["2"])


def stages(command: str) -> list[Stage]:
    """The commands of a pipe."""
    found: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return [Stage.of(words) for words in found]


def is_python(file: Path) -> bool:
    """Return whether all commands of a file can run in this process."""
    lines = commands(file)
    known = all(stage.tool in TOOLS for line in lines for stage in stages(line))
    return known and not any(_TEMPORARY.search(line) for line in lines)


def run(command: str) -> None:
    """Run a pipe, in this process. Fails the test where one of its commands does."""
    text, log = "", io.StringIO()
    for stage in stages(command):
        out = io.StringIO()
        sinks = {_OUT: out, _ERR: log, _NULL: io.StringIO()}
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(sinks[stage.out]),
            contextlib.redirect_stderr(sinks[stage.err]),
        ):
            patch.setattr(sys, "stdin", io.StringIO(text))
            # which --disable-verify replaces for the rest of the process
            patch.setattr(Attribute, "__post_init__", Attribute.__post_init__)
            code = TOOLS[stage.tool](list(stage.args))
        text = out.getvalue()
        if (code != 0) != stage.fails:
            pytest.fail(f"{command}\n{stage.tool}: {code}\n{text}\n{log.getvalue()}", pytrace=False)
