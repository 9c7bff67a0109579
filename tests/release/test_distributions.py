"""The wheel and the source distribution: their files, and that they work once installed."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

import tessella
from release import fresh
from release.build import build
from release.packages import ROOT, MissingError, extras, installed, requirements
from tests.test_layout import FOLDERS, import_all

TIME = 1_700_000_000


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source distribution and a wheel."""
    return build(tmp_path_factory.mktemp("dist"), TIME)


@pytest.fixture(scope="module")
def site(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(distributions[1]) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the programs of environments read."""
    folder = tmp_path_factory.mktemp("work")
    fresh.files(folder)
    tessella.compile(folder / "digits.onnx", prepare=True).save(folder / "digits.tsl")
    return folder


def files(folder: Path) -> set[str]:
    """The files of a package folder, as they are called in a wheel."""
    paths = [path.relative_to(folder.parent) for path in folder.rglob("*.*") if path.is_file()]
    return {
        f"tessella/{path.as_posix()}"
        for path in paths
        if path.suffix != ".md" and not any(p[0] == "." or p == "__pycache__" for p in path.parts)
    }


def test_the_wheel_holds_the_tree_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        names = set(archive.namelist())
    found = {name for name in names if ".dist-info/" not in name}
    top = (ROOT / "src" / "tessella").iterdir()
    expected = {f"tessella/{path.name}" for path in top if path.is_file()}
    assert found == expected.union(*(files(ROOT / name) for name in FOLDERS))
    [metadata] = {name.split("/")[0] for name in names - found}
    assert metadata == f"tessella-{tessella.__version__}.dist-info"
    assert f"{metadata}/licenses/LICENSE" in names


def test_members_have_no_owner_and_one_time(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[0]) as archive:
        members = archive.getmembers()
    assert {(member.mtime, member.uid, member.uname) for member in members} == {(TIME, 0, "")}
    assert {member.mode for member in members} == {0o644, 0o755}
    with zipfile.ZipFile(distributions[1]) as archive:
        assert len({member.date_time for member in archive.infolist()}) == 1


@pytest.mark.slow
def test_another_build_has_the_same_bytes(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        again = build(tmp_path, TIME)
    finally:
        os.umask(before)
    for first, second in zip(distributions, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_the_wheel_imports(site: Path) -> None:
    assert "xdsl" in import_all(site, *FOLDERS)


def test_each_extra_has_a_program() -> None:
    assert {*fresh.PROGRAMS} == {fresh.NUMPY, fresh.BARE, *extras()}


def link(environment: Path, site: Path, name: str) -> None:
    """Install the wheel by symbolic links, with the installed packages on which it depends."""
    [packages] = (environment / "lib").glob("python*/site-packages")
    needed = [*requirements()] if name != fresh.NUMPY else []
    needed += requirements(name) if name in extras() else []
    found = installed([r for r in requirements() if r.name == "numpy"] + needed)
    names = {
        (Path(str(package.locate_file(""))), file.parts[0])
        for package in found.values()
        for file in package.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }
    for folder, top in {*names, *((site, path.name) for path in site.iterdir())}:
        (packages / top).symlink_to(folder / top)


def attempt(name: str, site: Path, work: Path) -> None:
    try:
        fresh.attempt(name, site, work, link)
    except MissingError as error:
        pytest.skip(str(error))


def test_an_artifact_runs_where_only_numpy_is_installed(site: Path, work: Path) -> None:
    attempt(fresh.NUMPY, site, work)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in fresh.PROGRAMS if name != fresh.NUMPY])
def test_an_extra_brings_what_it_needs(name: str, site: Path, work: Path) -> None:
    attempt(name, site, work)


def test_a_failure_has_the_output(site: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "PROGRAMS", {"bare": "raise SystemExit('it broke')"})
    with pytest.raises(fresh.FreshError, match="it broke"):
        fresh.attempt("bare", site, work, lambda environment, wheel, name: None)
