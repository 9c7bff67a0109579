"""How many threads run a program where nobody says so: see docs/threads.md."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tessella.support.errors import OptionError

MOST = 1024
"""Threads that a user may ask for."""

VARIABLES = ("TESSELLA_THREADS", "OMP_NUM_THREADS")
"""Environment variables that give the number, the first one first."""

_UNITS = "a whole number of threads from 1 to 1024"


def check(threads: object, where: str) -> int:
    """The number. Raises OptionError for one that there cannot be."""
    if type(threads) is not int:
        raise OptionError(
            f"{where} has the wrong type",
            expected=_UNITS,
            found=f"{threads!r} of type {type(threads).__name__}",
        )
    if not 1 <= threads <= MOST:
        raise OptionError(
            "programs cannot run on so many threads",
            where=where,
            expected=_UNITS,
            found=str(threads),
        )
    return threads


def default() -> int:
    """The number of threads by the environment, else as many as this process may have cores.

    Raises OptionError for a variable that is no number.
    """
    for name in VARIABLES:
        text = os.environ.get(name, "").strip()
        if text:
            return check(_number(name, text), f"{name}={text}")
    return min(available(), MOST)


def _number(name: str, text: str) -> int:
    # OpenMP allows a list, for threads that start threads
    first = text.partition(",")[0].strip() if name == "OMP_NUM_THREADS" else text
    if first.isascii() and first.isdigit() and len(first) < 10:
        return int(first)
    raise OptionError("cannot read the number of threads", where=f"{name}={text}", expected=_UNITS)


def available() -> int:
    """The cores whose time this process gets."""
    return min(cores(), quota())


def cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def quota(root: Path = Path("/")) -> int:
    """How many cores' time the control groups of this process get, rounded up; MOST where there is
    no limit. Of the groups around a group, the strictest counts."""
    limits = (limit for group in _groups(root) for limit in _limits(group))
    return max(1, math.ceil(min(limits, default=MOST)))


class _Mount(NamedTuple):
    """Where the tree of control groups is mounted, and which group of it is the mount's root."""

    folder: Path
    group: PurePosixPath
    is_v2: bool


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the control groups that limit this process, each after those inside it."""
    # HIERARCHY:CONTROLLERS:GROUP
    entries = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    for mount in _mounts(root):
        for _, controllers, group in (entry for entry in entries if len(entry) == 3):
            if not controllers if mount.is_v2 else "cpu" in controllers.split(","):
                yield from _inside(mount, PurePosixPath(group))


def _inside(mount: _Mount, group: PurePosixPath) -> Iterator[Path]:
    # a container may see the name that the group has outside
    inner = PurePosixPath()
    if group.is_relative_to(mount.group):
        inner = group.relative_to(mount.group)
    yield from (mount.folder / part for part in (inner, *inner.parents))


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _lines(root / "proc/self/mountinfo"):
        # ID PARENT DEVICE ROOT FOLDER OPTIONS.. - TYPE SOURCE OPTIONS
        fields, _, rest = line.partition(" - ")
        kind, _, options = [*rest.split(), "", "", ""][:3]
        group, folder = [*fields.split(), "", "", "", "", ""][3:5]
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
            at = root / folder.lstrip("/")
            yield _Mount(at, PurePosixPath(group), kind == "cgroup2")


def _limits(group: Path) -> Iterator[float]:
    """The limits of one group, in cores."""
    v1 = [line for name in ("quota", "period") for line in _lines(group / f"cpu.cfs_{name}_us")]
    for numbers in (" ".join(_lines(group / "cpu.max")).split(), v1):
        match numbers:
            case [quota, period] if quota.isdigit() and period.isdigit() and int(period):
                yield int(quota) / int(period)
            case _:
                pass


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
