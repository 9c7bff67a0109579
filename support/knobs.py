"""Environment variables, in one place: typed, documented, and settable within a block in tests.

An invalid value raises OptionError where it is first needed, as importing tessella never fails.

| variable | meaning |
|---|---|
| `TESSELLA_VERIFY` | 1: verify the IR after every pass |
| `TESSELLA_FULL_TRACEBACK` | 1: the command line shows Python's traceback of an error |
| `TESSELLA_LOG_PASSES` | 1: print to stderr which passes are skipped, and why |
| `TESSELLA_DEBUG_PASSES` | debug passes to run in the pipeline, such as `print-op-stats,..` |
| `TESSELLA_CRASH_DIR` | the folder for files that reproduce the crash of a pass, or `off` |
| `TESSELLA_PLUGINS` | 0: ignore the plugins of other installed packages |
| `TESSELLA_WORKERS` | most processes that run LLVM at once; 0: this process runs LLVM |
| `TESSELLA_ELASTIC` | 0: runs keep all their threads, even if waiting for them costs more |
| `TESSELLA_PERF` | 1: write `/tmp/perf-PID.map`, by which `perf` names kernels and their nodes |
| `TESSELLA_OPENCL` | a part of the names of the OpenCL devices to use |
| `TESSELLA_CACHE` | the folder of the compilation cache, or `off`; read by ``disk`` |
| `TESSELLA_CACHE_SIZE` | the largest size of the cache, such as `500M`; read by ``disk`` |
| `TESSELLA_KERNELS` | kernels that are off, or preferred: `-winograd,+blas`; read by ``driver`` |
| `TESSELLA_DB` | the file of measured kernel times; read by ``targets.database`` |
| `TESSELLA_THREADS` | the number of threads that run a program; read by ``targets.threads`` |
| `TESSELLA_TARGET` | the target to generate code for, instead of this machine |
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property

from tessella.support.errors import OptionError


def _flag(name: str, *, default: bool = False) -> bool:
    text = os.environ.get(name, "").strip()
    if text not in ("", "0", "1"):
        raise _error(name, text, "0 or 1")
    return text == "1" if text else default


def _names(name: str) -> tuple[str, ...]:
    return tuple(filter(None, os.environ.get(name, "").split(",")))


def _count(name: str, what: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise _error(name, text, f"a number of {what} from 0 to 9999")
    return int(text)


def _error(name: str, text: str, expected: str) -> OptionError:
    return OptionError(
        f"cannot read the environment variable {name}", expected=expected, found=repr(text)
    )


class Knobs:
    """The settings of this process. Each environment variable is read once."""

    @cached_property
    def verify(self) -> bool:
        """Whether to verify the IR after every pass."""
        return _flag("TESSELLA_VERIFY")

    @cached_property
    def full_traceback(self) -> bool:
        """Whether to show Python's traceback of an error on the command line."""
        return _flag("TESSELLA_FULL_TRACEBACK")

    @cached_property
    def log_passes(self) -> bool:
        """Whether to print to stderr which passes are skipped, and why."""
        return _flag("TESSELLA_LOG_PASSES")

    @cached_property
    def debug_passes(self) -> tuple[str, ...]:
        """The debug passes to run in the pipeline."""
        return _names("TESSELLA_DEBUG_PASSES")

    @cached_property
    def crash_dir(self) -> str:
        """The folder for files that reproduce the crash of a pass: ``off`` for none, empty for the
        system's folder for temporary files."""
        return os.environ.get("TESSELLA_CRASH_DIR", "")

    @cached_property
    def plugins(self) -> bool:
        """Whether to use the plugins of other installed packages."""
        return _flag("TESSELLA_PLUGINS", default=True)

    @cached_property
    def workers(self) -> int | None:
        """The most processes that run LLVM; None for as many as there are cores. With 0, this
        process compiles every program itself."""
        return _count("TESSELLA_WORKERS", "processes")

    @cached_property
    def elastic(self) -> bool:
        """Whether runs use fewer threads if some of their threads have to wait for cores."""
        return _flag("TESSELLA_ELASTIC", default=True)

    @cached_property
    def perf(self) -> bool:
        """Whether to write the map by which `perf` names kernels and their nodes."""
        return _flag("TESSELLA_PERF")

    @cached_property
    def opencl(self) -> str:
        """A part of the names of the OpenCL devices to use; empty for all devices."""
        return os.environ.get("TESSELLA_OPENCL", "").strip()

    @contextmanager
    def set(self, *, verify: bool) -> Generator[None]:
        """Change knobs within a block, and restore them at its end."""
        old, self.verify = self.verify, verify
        try:
            yield
        finally:
            self.verify = old


KNOBS = Knobs()
