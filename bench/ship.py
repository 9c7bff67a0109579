"""Compare what running a shipped model takes: time to the first answer, and memory.

    python -m bench.ship [NAME ...] --processes 8 --json results.json

tessella runs an artifact, the others the ONNX file. Each figure is of processes that do nothing
else: the seconds from the start of Python to the first answer, imports included; and the memory of
one process and of several at once, where shared pages count once (Linux's proportional set size).
The installation size is that of the packages' folders.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import tessella
from bench.command import Command, show_machine, write_figures
from bench.models import NAMES, write_model

PACKAGES = {
    "tessella": ("tessella", "numpy"),
    "onnxruntime": ("onnxruntime", "numpy"),
    "openvino": ("openvino", "numpy"),
}
"""The packages that each contestant needs to run a model."""

_REPEATS = 5


@dataclass(frozen=True)
class Row:
    """Figures of one contestant on one model."""

    model: str
    contestant: str
    first_answer_seconds: float
    one_process_mb: float
    all_processes_mb: float
    installed_mb: float


def measure(model: str, contestant: str, file: Path, feeds: Path, processes: int) -> Row:
    """Return the figures. Raises RuntimeError if a process fails."""
    alone = [_run(contestant, file, feeds, 1) for _ in range(_REPEATS)]
    together = _run(contestant, file, feeds, processes)[1]
    seconds, memory = (median(column) for column in zip(*alone, strict=True))
    size = sum(map(_installed, PACKAGES[contestant]))
    return Row(model, contestant, seconds, memory / 1e6, together / 1e6, size / 1e6)


def _run(contestant: str, file: Path, feeds: Path, count: int) -> tuple[float, int]:
    """Return the seconds until all of some processes have answered, and the bytes that they then
    take."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "bench.first", contestant, str(file), str(feeds)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    lines = [process.stdout.readline() if process.stdout else "" for process in running]
    answered = all(lines)
    memory = [proportional_bytes(process.pid) for process in running] if answered else []
    for process in running:
        process.communicate()  # closes its standard input, which ends it
    if not answered:
        raise RuntimeError(f"{contestant} did not answer")
    return max(json.loads(line)["answered"] for line in lines) - began, sum(memory)


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process, with its share of pages that others have too."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    [line] = (line for line in text.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024


def _installed(package: str) -> int:
    """Return the bytes of a package's files."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = (path for folder in folders for path in Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc")


def _rows(names: Sequence[str], processes: int) -> list[Row]:
    rows: list[Row] = []
    able = [name for name in PACKAGES if importlib.util.find_spec(name) is not None]
    with TemporaryDirectory() as folder:
        for name in names:
            model, artifact = Path(folder, f"{name}.onnx"), Path(folder, f"{name}.tsl")
            _, feeds = write_model(name, model)
            np.savez(Path(folder, "feeds.npz"), allow_pickle=False, **feeds)
            tessella.compile(model).save(artifact)
            for contestant in able:
                file = artifact if contestant == "tessella" else model
                row = measure(name, contestant, file, Path(folder, "feeds.npz"), processes)
                rows.append(row)
                print(_line(row, processes), flush=True)
    return rows


def _line(row: Row, processes: int) -> str:
    return (
        f"{row.model:20} {row.contestant:12} {row.first_answer_seconds:7.3f} s"
        f" {row.one_process_mb:8.0f} MB {row.all_processes_mb:8.0f} MB of {processes} processes"
        f" {row.installed_mb:6.0f} MB installed"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = Command("ship", __doc__ or "")
    parser.add_names("model", NAMES)
    parser.add_argument("--processes", type=int, default=8, metavar="N")
    args = parser.parse(argv)
    where = show_machine()
    rows = _rows(args.names, args.processes)
    write_figures(args.json, where, rows=[asdict(row) for row in rows])


if __name__ == "__main__":
    main()
