"""The filecheck tests: lit runs each ``tests/filecheck/**/*.mlir`` as its ``// RUN:`` lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "filecheck"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.mlir"))

# The script, and not `python -m lit.main`, which exits with 0 when tests fail.
LIT = Path(sys.executable).parent / "lit"


def test_there_are_filecheck_tests() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES)
def test_filecheck(file: str) -> None:
    command = [str(LIT), "-v", "--skip-test-time-recording", str(FOLDER / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
