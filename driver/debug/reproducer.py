"""Files that reproduce the crash of a pass.

They are the program before the pass, as `tessella-opt` reads it, the command, the versions, and the
traceback. They are written to a folder of their own in ``TESSELLA_CRASH_DIR``, or in the system's
folder for temporary files; ``TESSELLA_CRASH_DIR=off`` disables them.
"""

from __future__ import annotations

import platform
import shlex
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from xdsl.passes import ModulePass

from tessella import targets
from tessella.dialects.graph import Graph
from tessella.driver.build.pipeline_text import pipeline_text
from tessella.driver.stages.stage_file import save_stage
from tessella.runtime.weights import WeightStore
from tessella.support.foreign import is_foreign
from tessella.support.knobs import KNOBS
from tessella.support.versions import versions

MOST_BYTES = 256 << 20
"""The most bytes of weights that are written; larger programs are written without weights."""

_MOST_FOLDERS = 16  # the most folders of one process
_folders: dict[str, Path] = {}
"""The folder of the files of each crash, by the pass, the type of the exception and its last
frame."""


def command(step: ModulePass, folder: Path) -> str:
    """Return the `tessella-opt` command that reproduces a crash of the pass ``step``, given the
    folder of the crash."""
    return _command(step, str(folder / "before.mlir"))


def _command(step: ModulePass, file: str) -> str:
    return f"tessella-opt {shlex.quote(file)} -p {shlex.quote(pipeline_text([step]))}"


def write(step: ModulePass, before: Callable[[], Graph], error: Exception) -> Path | None:
    """Write the files that reproduce a crash, once per process. ``before`` returns the program
    before the pass.

    Returns the folder of the files; None if they are not written.
    """
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    key = f"{pipeline_text([step])} {type(error).__name__} {frames[-1] if frames else ''}"
    if key in _folders:
        return _folders[key]
    if KNOBS.crash_dir == "off" or len(_folders) >= _MOST_FOLDERS:
        return None
    try:
        folder = _written(step, before(), error)
    except Exception as failure:  # The crash is the error to report.
        if is_foreign(failure):
            raise
        return None
    return _folders.setdefault(key, folder)


def _written(step: ModulePass, graph: Graph, error: Exception) -> Path:
    if KNOBS.crash_dir:
        Path(KNOBS.crash_dir).mkdir(parents=True, exist_ok=True)
    prefix = f"tessella-crash-{step.name}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=KNOBS.crash_dir or None))
    weights = graph.weights if graph.weights.nbytes() <= MOST_BYTES else WeightStore()
    path = folder / "before.mlir"
    save_stage(path, graph.module, weights)
    path.write_text(f"{_header(step)}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    (folder / "traceback.txt").write_text("".join(traceback.format_exception(error)), "utf-8")
    return folder


def _header(step: ModulePass) -> str:
    """Return comments for the file of a program: the command that reproduces the crash, and the
    versions."""
    lines = [
        _command(step, "before.mlir"),
        f"{versions()}, python {platform.python_version()}, on {targets.native().name}",
    ]
    return "\n".join(f"// {line}" for line in lines)
