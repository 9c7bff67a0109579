"""The tree, the links in ``src/tessella`` and the distributions hold the same packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tests.hostile.models import X, mixed

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

NOT_INSTALLED = {"bench", "tests"}
"""Packages at the top level that are only run from the repository."""


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def files(folder: Path) -> set[str]:
    """The files of a package folder, as they are called in a wheel."""
    paths = [path.relative_to(folder.parent) for path in folder.rglob("*.*") if path.is_file()]
    return {
        f"tessella/{path.as_posix()}"
        for path in paths
        if path.suffix != ".md" and not any(p[0] == "." or p == "__pycache__" for p in path.parts)
    }


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
    assert found == {*FOLDERS, "__init__.py", "__main__.py", "py.typed"}


def test_version() -> None:
    version = project()["project"]["version"]
    assert tessella.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_linters_read_every_folder() -> None:
    tools = project()["tool"]
    read = {path.removeprefix("src/tessella/") for path in tools["basedpyright"]["include"]}
    assert read >= set(FOLDERS)
    assert set(tools["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == set(FOLDERS)
    layers = tools["importlinter"]["contracts"][0]["layers"]
    assert tuple(reversed(layers)) == FOLDERS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, by way of a source distribution, built from a copy so that nothing old gets in."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("src", *FOLDERS):
        ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=copy)
    [path] = (copy / "dist").glob("*.whl")
    return path


def test_the_wheel_holds_the_tree_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    found = {name for name in names if ".dist-info/" not in name}
    expected = {f"tessella/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}
    assert found == expected.union(*(files(ROOT / name) for name in FOLDERS))
    [metadata] = {name.split("/")[0] for name in names - found}
    assert metadata == f"tessella-{project()['project']['version']}.dist-info"
    assert f"{metadata}/licenses/LICENSE" in names


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


def test_the_wheel_imports(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    assert "xdsl" in import_all(tmp_path, *FOLDERS)


def test_running_a_compiled_model_needs_numpy_only() -> None:
    known = import_all(ROOT / "src")
    assert import_all(ROOT / "src", "support", "targets", "runtime") - known <= {"numpy"}


def test_an_artifact_runs_where_only_numpy_is_installed(wheel: Path, tmp_path: Path) -> None:
    """The artifact runs in a new environment, with the contents of the wheel."""
    model = tessella.compile(mixed())
    model.save(tmp_path / "m.tsl")
    venv.create(tmp_path / "new", symlinks=True)
    [packages] = (tmp_path / "new" / "lib").glob("python*/site-packages")
    for folder in Path(np.__file__).parents[1].glob("numpy*"):
        (packages / folder.name).symlink_to(folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    np.save(tmp_path / "x.npy", X)
    program = (
        "import importlib.util, numpy as np, tessella\n"
        "assert not any(map(importlib.util.find_spec, ('xdsl', 'llvmlite', 'onnx')))\n"
        "np.save('y.npy', tessella.load('m.tsl')(np.load('x.npy')))\n"
    )
    run(str(tmp_path / "new" / "bin" / "python"), "-I", "-c", program, cwd=tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(X))
