"""The tree and the links in ``src/tessella`` hold the same packages."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tessella"
FOLDERS = (
    "support",
    "targets",
    "runtime",
    "dialects",
    "kernels",
    "passes",
    "lowering",
    "codegen",
    "driver",
    "frontends",
    "tools",
)
"""From low to high."""

NOT_INSTALLED = {"bench", "release", "tests"}
"""Packages at the top level that are only run from the repository."""


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def run(*command: str, cwd: Path) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_package_is_known() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found - NOT_INSTALLED == set(FOLDERS)


@pytest.mark.parametrize("name", FOLDERS)
def test_link(name: str) -> None:
    link = SOURCE / name
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / name
    assert not (ROOT / name).is_symlink()


@pytest.mark.parametrize("name", FOLDERS)
def test_every_folder_with_modules_is_a_package(name: str) -> None:
    folders = {path.parent for path in (ROOT / name).rglob("*.py")}
    assert [str(f) for f in folders if not (f / "__init__.py").is_file()] == []
    assert folders


def test_nothing_else_is_in_the_package() -> None:
    found = {p.name for p in SOURCE.iterdir() if p.name[0] != "." and p.name != "__pycache__"}
    assert found == {*FOLDERS, "__init__.py", "__main__.py", "py.typed", "ray.py"}


def test_the_linters_read_every_folder() -> None:
    tools = project()["tool"]
    read = {path.removeprefix("src/tessella/") for path in tools["basedpyright"]["include"]}
    assert read >= set(FOLDERS)
    assert set(tools["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == set(FOLDERS)
    layers = tools["importlinter"]["contracts"][0]["layers"]
    assert tuple(reversed(layers)) == FOLDERS


IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import tessella
assert tessella.__file__.startswith(sys.argv[1]), tessella.__file__
for name in sys.argv[2:]:
    package = importlib.import_module(f"tessella.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"tessella.{name}."):
        importlib.import_module(module.name)
print(*sorted({name.split(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


def import_all(where: Path, *folders: str) -> set[str]:
    """Import all modules of these folders of the package in ``where``; what else got imported."""
    return set(run(sys.executable, "-c", IMPORT_ALL, str(where), *folders, cwd=where).split())


def test_running_a_compiled_model_needs_numpy_only() -> None:
    known = import_all(ROOT / "src")
    assert import_all(ROOT / "src", "support", "targets", "runtime") - known <= {"numpy"}
