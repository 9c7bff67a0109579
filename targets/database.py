"""Measured kernel times, in a file that can be shipped, merged and shared.

The file is JSON. An entry is a kernel for an op at a place, on a processor and for a target; it has
cycles and the quality of the measurement:

    {"format": "tessella times", "version": 1, "machines": [
       {"processor": "...", "target": "avx512", "kernels": {"nn.conv ...": [81230.5, 0.02, 25]}}]}

Reading is bounded and checked. The times decide between kernels, and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, cast

from tessella.support import disk
from tessella.support.errors import OptionError
from tessella.targets import machine
from tessella.targets.target import Target

FORMAT, VERSION = "tessella times", 1
"""The format and the version of a database. A file of another version is refused: keys and the
method of measuring may differ."""

MAX_BYTES = 64 << 20
"""The most bytes of a database."""
MAX_ENTRIES = 1 << 18
"""The most entries of a database."""
MAX_TEXT = 1 << 13
"""The most characters of a key, and of the name of a processor or target."""
MAX_CYCLES = 1e15
"""The most cycles of a kernel; more are not plausible."""
MAX_RUNS = 1 << 20
"""The most runs of a measurement; more are not plausible."""
PATIENCE, PAUSE = 10.0, 0.01
"""Seconds to wait for other writers, and between two attempts."""
KNOB = "TESSELLA_DB"
"""The environment variable that names the file if no option does."""


class Timing(NamedTuple):
    """The time of a kernel on one thread, with its weights outside the caches."""

    cycles: float
    spread: float
    """The spread of the runs as a fraction of the cycles."""
    runs: int

    def better(self, other: Timing) -> Timing:
        """Return the better measurement: the one with more runs, then with less spread."""
        return max(self, other, key=lambda t: (t.runs, -t.spread, -t.cycles))


Times = Mapping[str, Timing]
"""The times of one machine, by kernel."""


class TimedMachine(NamedTuple):
    """The machine on which times were measured: its processor, and the target of the code."""

    processor: str
    target: str


@dataclass
class Database:
    """Timings of any number of machines."""

    machines: dict[TimedMachine, dict[str, Timing]] = field(
        default_factory=dict[TimedMachine, dict[str, Timing]]
    )

    def of(self, where: TimedMachine) -> Times:
        """Return the times of a machine."""
        return self.machines.get(where, {})

    def add(self, where: TimedMachine, times: Times) -> None:
        """Add the times of a machine. If a kernel has a time already, the better measurement
        stays."""
        known = self.machines.setdefault(where, {})
        for key, timing in times.items():
            known[key] = timing.better(known[key]) if key in known else timing

    def merge(self, other: Database) -> None:
        """Add all times of another database."""
        for where, times in other.machines.items():
            self.add(where, times)


def this_machine(target: Target) -> TimedMachine:
    """Return the key under which measured times of this machine, running code for a target, are
    stored."""
    digest = hashlib.sha256(machine.processor().encode()).hexdigest()[:16]
    return TimedMachine(f"{_model()} {digest}"[:MAX_TEXT], f"{target.name} {target.feature_string}")


def _model() -> str:
    lines = (line.partition(":") for line in machine.processor().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "model name"), "cpu")


def of_this_machine(path: str, target: Target) -> Times:
    """Return the times of this machine in the file at ``path``; empty if ``path`` is empty. Raises
    OptionError if the file is missing or malformed."""
    return read(path).of(this_machine(target)) if path else {}


def digest(path: str) -> str:
    """Return a digest of the content of the file at ``path``; empty if ``path`` is empty. Raises
    OptionError if the file cannot be read."""
    return hashlib.sha256(_content(Path(path))).hexdigest() if path else ""


def read(path: str | Path) -> Database:
    """Read a database. Raises OptionError if the file is missing or malformed."""
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError) as error:  # a path cannot have a null character
        raise _refused(file, "cannot be read", _why(error)) from error
    return _read(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(file: Path, _modified: int, _size: int) -> Database:
    return parse(_content(file), str(file))


def _content(file: Path) -> bytes:
    try:
        if not file.is_file():  # opening a pipe would block
            raise _refused(file, "cannot be read", "no regular file")
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _refused(file, "cannot be read", _why(error)) from error
    if len(content) > MAX_BYTES:
        raise _refused(file, "is too large", f"more than {MAX_BYTES} bytes")
    return content


def _why(error: Exception) -> str:
    known = error.strerror if isinstance(error, OSError) else None
    return known or str(error)


def parse(content: bytes, where: str = "") -> Database:
    """Parse the content of a file. Raises OptionError if it is malformed."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _refused(where, "is no JSON", str(error)) from error
    if not isinstance(found, dict):
        raise _refused(where, "holds no times", type(found).__name__)
    document = cast(dict[str, Any], found)
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        kind = f"{document.get('format')!r:.60}, version {document.get('version')!r:.20}"
        raise _refused(where, f"is not {FORMAT!r}, version {VERSION}", kind)
    database, left = Database(), MAX_ENTRIES
    machines = document.get("machines")
    for entry in cast(Sequence[Any], machines if isinstance(machines, list) else [None]):
        owner, times = _machine(entry, where)
        left -= len(times) + 1
        if left < 0:
            raise _refused(where, "has too many times", f"more than {MAX_ENTRIES}")
        database.add(owner, times)
    return database


def _machine(entry: Any, where: str) -> tuple[TimedMachine, dict[str, Timing]]:
    fields = cast(dict[str, Any], entry if isinstance(entry, dict) else {})
    names, kernels = [fields.get("processor"), fields.get("target")], fields.get("kernels")
    if not all(map(_is_text, names)) or not isinstance(kernels, dict):
        raise _refused(where, "is damaged: a machine", f"{entry!r:.80}")
    listed = cast(dict[str, Any], kernels)
    return TimedMachine(*map(str, names)), {k: _timing(k, v, where) for k, v in listed.items()}


def _timing(key: str, value: Any, where: str) -> Timing:
    numbers = cast(list[Any], value) if isinstance(value, list) else []
    if len(numbers) == 3 and _is_text(key):
        cycles, spread, runs = numbers
        number = all(type(x) in (int, float) for x in (cycles, spread)) and type(runs) is int
        if number and 0 < cycles <= MAX_CYCLES and 0 <= spread <= 1e6 and 0 < runs <= MAX_RUNS:
            return Timing(float(cycles), float(spread), runs)
    raise _refused(where, "is damaged: a timing", f"{key!r:.80}: {value!r:.60}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def write(path: str | Path, database: Database) -> None:
    """Write a database to a file, which is replaced atomically. Raises OptionError if the file
    cannot be written."""
    machines = [
        {"processor": m.processor, "target": m.target, "kernels": dict(sorted(times.items()))}
        for m, times in sorted(database.machines.items())
    ]
    document = {"format": FORMAT, "version": VERSION, "machines": machines}
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        disk.write(file, 0o666, (json.dumps(document, indent=0) + "\n").encode())
    except OSError as error:
        raise _refused(file, "cannot be written", error.strerror or str(error)) from error


def update(path: str | Path, added: Database) -> None:
    """Add times to the database in a file, which may be new. Raises OptionError if the file is
    malformed or cannot be written.

    Concurrent processes wait for each other: none loses what another one adds.
    """
    file, merged = Path(path), Database()
    with _alone(file):
        if file.exists():
            merged.merge(parse(_content(file), str(file)))
        merged.merge(added)
        write(file, merged)


@contextlib.contextmanager
def _alone(file: Path) -> Generator[None]:
    """Lock the folder of a file against other writers of databases, within a block.

    The lock ends with the process. Without locks, or if one is held for too long, concurrent
    additions may be lost.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        raise _refused(file, "cannot be written", error.strerror or str(error)) from error
    try:
        with contextlib.suppress(OSError):
            _lock(folder, monotonic() + PATIENCE)
        yield
    finally:
        os.close(folder)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                raise
            sleep(PAUSE)


def _refused(file: str | Path, what: str, found: str) -> OptionError:
    return OptionError(
        f"the database of times {what}",
        where=str(file) or None,
        found=found,
        hint="`tessella tune` writes one; it is named by the option 'database' or TESSELLA_DB",
    )
