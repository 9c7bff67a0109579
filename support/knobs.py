"""Environment variables, in one place: typed, documented, and settable for a while in tests.

| variable | meaning |
|---|---|
| `TESSELLA_VERIFY` | 1: verify the IR after every pass |
| `TESSELLA_FULL_TRACEBACK` | 1: the command line shows Python's traceback of an error |
| `TESSELLA_LOG_PASSES` | 1: say on stderr which passes are skipped, and why |
| `TESSELLA_DEBUG_PASSES` | the debug passes to run in the pipeline, as `print-op-stats,..` |
| `TESSELLA_CRASH_DIR` | where a pass that crashes leaves what repeats it, or `off` |
| `TESSELLA_PLUGINS` | 0: leave out what other installed packages add |
| `TESSELLA_WORKERS` | processes that run LLVM, at most; 0: this one compiles everything |
| `TESSELLA_ELASTIC` | 0: runs keep all their threads, also where waiting for them costs more |
| `TESSELLA_PERF` | 1: write `/tmp/perf-PID.map`, by which `perf` names kernels and their nodes |
| `TESSELLA_CACHE` | the folder of what was compiled before, or `off`; read by ``disk`` |
| `TESSELLA_CACHE_SIZE` | what that may take, as `500M` or `8G`; read by ``disk`` |
| `TESSELLA_DB` | the file of times that were measured; read by ``targets.database`` |
| `TESSELLA_THREADS` | how many threads run a program; read by ``targets.threads`` |
| `TESSELLA_TARGET` | the machine to generate code for, instead of the one at hand |
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


def _flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def _names(name: str) -> tuple[str, ...]:
    return tuple(filter(None, os.environ.get(name, "").split(",")))


def _count(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else None


@dataclass
class Knobs:
    """The settings of this process."""

    verify: bool = field(default_factory=lambda: _flag("TESSELLA_VERIFY"))
    """Verify the IR after every pass."""

    full_traceback: bool = field(default_factory=lambda: _flag("TESSELLA_FULL_TRACEBACK"))
    """Show Python's traceback of an error on the command line."""

    log_passes: bool = field(default_factory=lambda: _flag("TESSELLA_LOG_PASSES"))
    """Say on stderr which passes are skipped, and why."""

    debug_passes: tuple[str, ...] = field(default_factory=lambda: _names("TESSELLA_DEBUG_PASSES"))
    """The debug passes to run in the pipeline."""

    crash_dir: str = field(default_factory=lambda: os.environ.get("TESSELLA_CRASH_DIR", ""))
    """Where a pass that crashes leaves what repeats it; by default where the system keeps temporary
    files."""

    plugins: bool = field(default_factory=lambda: os.environ.get("TESSELLA_PLUGINS") != "0")
    """Use what other installed packages add."""

    workers: int | None = field(default_factory=lambda: _count("TESSELLA_WORKERS"))
    """Processes that run LLVM, at most; None: as many as there are cores. With 0, no program is
    compiled in another process either."""

    elastic: bool = field(default_factory=lambda: os.environ.get("TESSELLA_ELASTIC") != "0")
    """Narrow runs whose threads have to wait for cores."""

    perf: bool = field(default_factory=lambda: _flag("TESSELLA_PERF"))
    """Write the map by which `perf` names kernels and their nodes."""

    @contextmanager
    def set(self, *, verify: bool) -> Generator[None]:
        """Change knobs for the length of a block."""
        old, self.verify = self.verify, verify
        try:
            yield
        finally:
            self.verify = old


KNOBS = Knobs()
