"""Measured figures of this machine: reading and validation.

`tessella targets --measure` writes them (``driver/tune/calibrate.py``). The file is JSON in the
user's cache folder; a file that is malformed, too large or implausible is ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeGuard, cast

from tessella.support import disk

VERSION = 1
"""The version of the measuring method; figures of other versions are ignored."""

MAX_BYTES = 16 * 1024
"""The most bytes of the file."""


class FigureBounds(NamedTuple):
    """The bounds of a plausible figure."""

    type: type[int] | type[float]
    least: float
    most: float


_COUNT = FigureBounds(int, 1, 16)
_BYTES_PER_CYCLE = FigureBounds(float, 0.01, 4096.0)

FIGURES: Mapping[str, FigureBounds] = {
    "fma_ports": _COUNT,
    "fma_latency": FigureBounds(int, 1, 64),
    "load_ports": _COUNT,
    "store_ports": _COUNT,
    "l1_bandwidth": _BYTES_PER_CYCLE,
    "l2_bandwidth": _BYTES_PER_CYCLE,
    "l3_bandwidth": _BYTES_PER_CYCLE,
    "memory_bandwidth": _BYTES_PER_CYCLE,
    "ghz": FigureBounds(float, 0.05, 20.0),
}
"""The fields of a ``Target`` that are measured, with the bounds of plausible figures."""

Figures = Mapping[str, int | float]


def path(target: str, processor: str) -> Path | None:
    """Return the file of a target's figures on a processor; None if TESSELLA_CACHE is off.

    ``processor`` is the description by ``machine.processor``.
    """
    folder = disk.folder()
    if folder is None:
        return None
    key = hashlib.sha256(f"{VERSION}\n{target}\n{processor}".encode()).hexdigest()
    return folder / f"machine-{key[:16]}.json"


def document(target: str, processor: str, figures: Figures) -> dict[str, object]:
    """Return the content of the file of measured figures, as a JSON object."""
    key = {"version": VERSION, "target": target, "processor": processor}
    return {**key, "figures": dict(figures)}


def read(target: str, processor: str) -> Figures:
    """Return the stored figures of a target on a processor, by the target's field; empty if there
    are none, or if they are not plausible."""
    file = path(target, processor)
    if file is None:
        return {}
    try:
        found = _load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    figures = found.get("figures")
    if not is_plausible(figures) or found != document(target, processor, figures):
        return {}
    return figures


def is_plausible(figures: object) -> TypeGuard[Figures]:
    """Return whether an object maps the name of every figure, and no other name, to a number within
    the figure's bounds."""
    if not isinstance(figures, Mapping):
        return False
    values = cast(Mapping[object, object], figures)
    return values.keys() == FIGURES.keys() and all(
        _within(values[name], bounds) for name, bounds in FIGURES.items()
    )


def _within(value: object, bounds: FigureBounds) -> bool:
    if isinstance(value, bool) or not isinstance(value, (bounds.type, int)):
        return False
    return bounds.least <= value <= bounds.most


def _load(file: Path) -> dict[str, object]:
    """Return the JSON object in a file; empty if the file has no JSON object, is too large, or is
    not a regular file."""
    if not file.is_file():  # opening a pipe would block
        return {}
    with file.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    found = json.loads(content) if len(content) <= MAX_BYTES else None
    return cast(dict[str, object], found) if isinstance(found, dict) else {}
