"""The packages that are installed with tessella and its extras for users."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DEVELOPMENT = frozenset({"bench", "docs", "release", "test", "test-scale", "test-torch"})
"""Extras for people who change tessella."""


class MissingError(Exception):
    """The error that packages are not installed here."""


def project() -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def extras() -> list[str]:
    """Return the names of the extras for users, in the order of pyproject.toml."""
    return [name for name in project()["optional-dependencies"] if name not in DEVELOPMENT]


def requirements(extra: str = "") -> Iterator[Requirement]:
    """Yield the requirements of an extra; without an extra, the package's own requirements."""
    table = project()
    name = table["name"]
    for text in table["optional-dependencies"][extra] if extra else table["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == name:
            for part in requirement.extras:
                yield from requirements(part)
        else:
            yield requirement


def installed(needed: Iterable[Requirement]) -> dict[str, Distribution]:
    """Return the installed packages on which requirements depend, directly or indirectly, by name.

    Raises
    ------
    MissingError
        If packages are not installed. The message names them.
    """
    found: dict[str, Distribution] = {}
    missing: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [*needed]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        wanted = {(name, extra) for extra in ("", *requirement.extras)} - seen
        seen |= wanted
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            missing.append(name)
        else:
            texts = found[name].requires or ()
            waiting += _applicable(texts, [extra for _, extra in wanted])
    if missing:
        raise MissingError(f"not installed: {', '.join(sorted({*missing}))}")
    return found


def _applicable(texts: Sequence[str], extras: Sequence[str]) -> Iterator[Requirement]:
    """Yield the requirements in ``texts`` that apply here, given the requested extras."""
    for requirement in map(Requirement, texts):
        marker = requirement.marker
        if marker is None:
            if "" in extras:
                yield requirement
        elif any(marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement
