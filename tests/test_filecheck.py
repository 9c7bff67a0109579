"""The filecheck tests: each ``tests/filecheck/**/*.mlir`` as its ``// RUN:`` lines say.

They run in this process where their commands are Python functions, else by lit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import run_lines
from tests.run_lines import FOLDER

FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.mlir"))
PYTHON = [file for file in FILES if run_lines.is_python(FOLDER / file)]
REAL = {*FILES} - {*PYTHON} | {"tools/errors.mlir"}
"""What a shell has to run, and one that shows that the others would run there too."""

# The script, and not `python -m lit.main`, which exits with 0 when tests fail.
LIT = Path(sys.executable).parent / "lit"


def test_there_are_filecheck_tests() -> None:
    assert len(PYTHON) > 50


@pytest.mark.parametrize("file", PYTHON)
def test_in_process(file: str) -> None:
    commands = run_lines.commands(FOLDER / file)
    assert commands
    for command in commands:
        run_lines.run(command)


@pytest.mark.parametrize("file", sorted(REAL))
def test_by_lit(file: str) -> None:
    command = [str(LIT), "-v", "--skip-test-time-recording", str(FOLDER / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
