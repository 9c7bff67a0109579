"""The generator of `docs/licences.md`: ``python -m release.licences > docs/licences.md``.

All extras for users must be installed. The exit code is 1 if a package has a licence that is not in
`ACCEPTED`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution
from typing import Any

from release.packages import extras, installed, requirements

ACCEPTED = frozenset(
    """
    0BSD Apache-2.0 BSD BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 ISC LLVM-exception MIT MIT-CMU
    MPL-2.0 PSF PSF-2.0 Zlib
    """.split()
)
"""Licences of packages that a program under any licence may import. `BSD` and `PSF` are names of
classifiers, which do not distinguish versions."""

_CLASSIFIER = "License :: OSI Approved :: "
_OLDER: Mapping[str, str] = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License v2.0 with LLVM Exceptions": "Apache-2.0 WITH LLVM-exception",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF",
}
"""SPDX expressions for the licence names in metadata before version 2.4."""

VENDORED: Mapping[str, tuple[str, str]] = {
    "d3": ("7.9.2", "ISC"),
    "@dagrejs/dagre": ("3.1.3", "MIT"),
}
"""The version and the licence of each JavaScript library in the wheel
(`driver/report/static/vendor`)."""

_HEAD = """\
# Licences

What are the licences of the packages that tessella needs? tessella has the Apache License 2.0. The
packages below are installed with tessella or its extras, which import them. This page is generated
by `python -m release.licences`, and a test compares it with the metadata of the packages.

The table lists PyTorch's builds for CPUs. Its builds for GPUs need packages of
NVIDIA, which have other licences.

| package | licence | needed by |
|---|---|---|
"""

_TAIL = """
The wheel contains JavaScript for [reports](report.md), with the licences beside the code:

| library | licence |
|---|---|
"""


class LicenceError(Exception):
    """The error that a licence is unknown or not accepted."""


def licence(package: Distribution) -> str:
    """Return the SPDX expression for the licence of a package.

    Raises
    ------
    LicenceError
        If its metadata names a licence that is not accepted.
    """
    metadata: Any = package.metadata
    classifiers: list[str] = metadata.get_all("Classifier") or []
    stated = [metadata.get("License-Expression"), metadata.get("License")]
    stated += [text.removeprefix(_CLASSIFIER) for text in classifiers if _CLASSIFIER in text]
    for text in filter(None, stated):
        expression = _OLDER.get(text, text)
        if is_accepted(expression):
            return expression
    raise LicenceError(f"{package.name}: none of {stated} is in release.licences.ACCEPTED")


def is_accepted(expression: str) -> bool:
    """Return whether an SPDX expression, or one of its alternatives, has only accepted licences."""
    parts = [expression] if "(" in expression else expression.split(" OR ")
    return any(_identifiers(part) <= ACCEPTED for part in parts)


def _identifiers(expression: str) -> set[str]:
    return {*re.split(r"[\s()]+", expression)} - {"", "AND", "OR", "WITH"}


def rows(packages: Mapping[str, Distribution], needed: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield a line of the table for each package."""
    for name in sorted(packages):
        readers = needed[name]
        by = "tessella" if "" in readers else ", ".join(f"`{extra}`" for extra in readers)
        yield f"| {name} | {licence(packages[name])} | {by} |"


def main() -> int:
    """Print the page."""
    packages: dict[str, Distribution] = {}
    needed: dict[str, list[str]] = {}
    for extra in ("", *extras()):
        found = installed(requirements(extra))
        packages |= found
        for name in found:
            needed.setdefault(name, []).append(extra)
    vendored = [f"| {name} | {licence} |" for name, (_, licence) in VENDORED.items()]
    try:
        lines = [*rows(packages, needed)]
    except LicenceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(_HEAD + "\n".join(lines) + "\n" + _TAIL + "\n".join(vendored))
    return 0


if __name__ == "__main__":
    sys.exit(main())
