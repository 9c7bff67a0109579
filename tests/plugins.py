"""Plugins for tests: a package with entry points, put on the path as if pip had installed it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from tessella.support import plugins


class Installer:
    """Installs packages of one module each for the length of a test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def __call__(self, package: str, source: str, entries: Mapping[str, Mapping[str, str]]) -> None:
        """Install a module under the package's name; ``entries`` are values by group and name."""
        info = self.folder / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [
            line
            for group, values in entries.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in values.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (self.folder / f"{package}.py").write_text(dedent(source))
        self.monkeypatch.syspath_prepend(self.folder)
        self.monkeypatch.delitem(sys.modules, package, raising=False)
        forget()


def forget() -> None:
    """Look for plugins anew."""
    plugins._installed.cache_clear()
    plugins._outcome.cache_clear()
