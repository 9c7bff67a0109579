"""The default number of threads: see docs/threads.md."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tessella.support.errors import OptionError

MOST = 1024
"""The most threads that a user may request."""

VARIABLES = ("TESSELLA_THREADS", "OMP_NUM_THREADS")
"""Environment variables that set the number, in order of precedence."""

_UNITS = "a whole number of threads from 1 to 1024"


def check(threads: object, where: str) -> int:
    """Return ``threads`` if it is an integer from 1 to ``MOST``. Raises OptionError otherwise,
    which names ``where`` as the origin."""
    if type(threads) is not int:
        raise OptionError(
            f"{where} has the wrong type",
            expected=_UNITS,
            found=f"{threads!r} of type {type(threads).__name__}",
        )
    if not 1 <= threads <= MOST:
        raise OptionError(
            "programs cannot run on this number of threads",
            where=where,
            expected=_UNITS,
            found=str(threads),
        )
    return threads


def default() -> int:
    """Return the number of threads that an environment variable sets, otherwise the number of cores
    available to this process.

    Raises OptionError if the variable is not a number or is out of range.
    """
    for name in VARIABLES:
        text = os.environ.get(name, "").strip()
        if text:
            return check(_number(name, text), f"{name}={text}")
    return min(available(), MOST)


def _number(name: str, text: str) -> int:
    # OpenMP allows a list, for nested parallelism.
    first = text.partition(",")[0].strip() if name == "OMP_NUM_THREADS" else text
    if first.isascii() and first.isdigit() and len(first) < 10:
        return int(first)
    raise OptionError("cannot read the number of threads", where=f"{name}={text}", expected=_UNITS)


def available() -> int:
    """Return the number of cores that this process can use: the cores that it may run on, within
    its CPU quota."""
    return min(cores(), quota())


def cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def quota(root: Path = Path("/")) -> int:
    """Return the CPU quota of this process's control groups in cores, rounded up; MOST without a
    limit.

    The strictest of the enclosing groups counts.
    """
    limits = (limit for group in _groups(root) for limit in _limits(group))
    return max(1, math.ceil(min(limits, default=MOST)))


class _Mount(NamedTuple):
    """The mount point of the control group tree, and the group at the mount's root."""

    folder: Path
    group: PurePosixPath
    is_v2: bool


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that limit this process, inner ones first."""
    # the format of a line: HIERARCHY:CONTROLLERS:GROUP
    entries = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    for mount in _mounts(root):
        for _, controllers, group in (entry for entry in entries if len(entry) == 3):
            if not controllers if mount.is_v2 else "cpu" in controllers.split(","):
                yield from _inside(mount, PurePosixPath(group))


def _inside(mount: _Mount, group: PurePosixPath) -> Iterator[Path]:
    # In a container, the name of the group may be its name outside the container.
    inner = PurePosixPath()
    if group.is_relative_to(mount.group):
        inner = group.relative_to(mount.group)
    yield from (mount.folder / part for part in (inner, *inner.parents))


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _lines(root / "proc/self/mountinfo"):
        # the format of a line: ID PARENT DEVICE ROOT FOLDER OPTIONS.. - TYPE SOURCE OPTIONS
        fields, _, rest = line.partition(" - ")
        kind, _, options = [*rest.split(), "", "", ""][:3]
        group, folder = [*fields.split(), "", "", "", "", ""][3:5]
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
            at = root / folder.lstrip("/")
            yield _Mount(at, PurePosixPath(group), kind == "cgroup2")


def _limits(group: Path) -> Iterator[float]:
    """Yield the CPU quotas of one control group, in cores."""
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
