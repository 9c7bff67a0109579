"""Generated code stays inside its buffers: what lies after and before them cannot be touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.harness import RUNNABLE as EVERY_WIDTH
from tests.native import RUNNABLE

ROOT = Path(__file__).parent.parent.parent
RUNS = [
    *(("guarded", name) for name in ("native", *RUNNABLE)),
    *(("guarded_engine", target.name) for target in EVERY_WIDTH),
]


@pytest.mark.sweep
@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
@pytest.mark.parametrize("module, target", RUNS)
def test_nothing_beside_a_buffer_is_touched(module: str, target: str) -> None:
    command = [sys.executable, "-m", f"tests.lowering.{module}", target]
    # that the IR verifies is tested elsewhere, and takes a fifth of the time
    environment = {**os.environ, "TESSELLA_VERIFY": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode or lines[-1:] != ["done"]:
        pytest.fail(f"ended with {done.returncode}, at {lines[-1:]}\n{done.stderr}", pytrace=False)
