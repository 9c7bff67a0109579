"""Generated code stays inside its buffers: what lies after and before them cannot be touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import RUNNABLE
from tests.sampling import sample

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
@pytest.mark.parametrize("target", sample(RUNNABLE))
def test_nothing_beside_a_buffer_is_touched(target: str) -> None:
    command = [sys.executable, "-m", "tests.frontends.tile.guarded", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or done.stdout.splitlines()[-1] != "done":
        ended = f"ended with {done.returncode}, at {done.stdout[-2000:]}\n{done.stderr}"
        pytest.fail(ended, pytrace=False)
