"""Entries on disk: whole or not there; ours or not read; no more than a bound."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tessella.support import disk
from tessella.support.disk import Folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folder:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TESSELLA_CACHE_SIZE", "100000")
    return Folder("things", 1.0)


def file_of(folder: Folder, key: str) -> Path:
    path = folder.path()
    assert path is not None
    return path / disk._name(key)


def test_an_entry_is_found(folder: Folder) -> None:
    assert folder.get("a") is None
    folder.put("a", b"content")
    folder.put("b", b"")
    assert folder.get("a") == b"content"
    assert folder.get("b") == b""
    assert folder.usage().entries == 2
    folder.put("a", b"other")
    assert folder.get("a") == b"other"


@pytest.mark.parametrize(
    "variables, wanted",
    [
        ({"TESSELLA_CACHE": "off"}, None),
        ({"TESSELLA_CACHE": "OFF"}, None),
        ({"TESSELLA_CACHE": "0"}, None),
        ({"TESSELLA_CACHE": "/a/b"}, Path("/a/b")),
        ({"TESSELLA_CACHE": "", "XDG_CACHE_HOME": "/x"}, Path("/x/tessella")),
        ({"TESSELLA_CACHE": "", "XDG_CACHE_HOME": "x", "HOME": "/h"}, Path("/h/.cache/tessella")),
        ({"TESSELLA_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, Path("/h/.cache/tessella")),
    ],
)
def test_where_they_are(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: Path | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert disk.home() == wanted


def test_nobody_else_can_write_there(folder: Folder) -> None:
    folder.put("a", b"content")
    file = file_of(folder, "a")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


# ** what is not read **


def test_an_entry_under_another_key(folder: Folder) -> None:
    folder.put("a", b"content")
    os.replace(file_of(folder, "a"), file_of(folder, "b"))
    assert folder.get("b") is None
    assert not file_of(folder, "b").exists()


@pytest.mark.parametrize("at", [0, 10, 45, -1])
def test_a_byte_that_changed(folder: Folder, at: int) -> None:
    folder.put("a", b"content")
    file = file_of(folder, "a")
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    assert folder.get("a") is None
    folder.put("a", b"content")
    assert folder.get("a") == b"content"


def test_an_entry_that_others_can_write_to(folder: Folder) -> None:
    folder.put("a", b"content")
    file_of(folder, "a").chmod(0o620)
    assert folder.get("a") is None
    file_of(folder, "a").chmod(0o600)
    assert folder.get("a") == b"content"


def test_an_entry_of_another_user(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.put("a", b"content")
    with monkeypatch.context() as other:
        other.setattr(os, "geteuid", lambda: 12345)
        assert folder.get("a") is None
        folder.put("b", b"content")
    assert folder.get("a") == b"content"
    assert folder.get("b") is None


def test_a_folder_that_others_can_write_to(folder: Folder) -> None:
    folder.put("a", b"content")
    file_of(folder, "a").parent.chmod(0o777)
    folder.put("b", b"content")
    assert not file_of(folder, "b").exists()


def test_entries_that_are_no_files(folder: Folder, tmp_path: Path) -> None:
    folder.put("a", b"content")
    file_of(folder, "link").symlink_to(file_of(folder, "a"))
    os.mkfifo(file_of(folder, "pipe"), 0o600)
    file_of(folder, "folder").mkdir()
    for key in ("link", "pipe", "folder"):
        assert folder.get(key) is None
    folder.put("link", b"new")
    assert folder.get("link") == b"new"
    assert folder.get("a") == b"content"


# ** disks **


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/" + "x" * 5000)):
        monkeypatch.setenv("TESSELLA_CACHE", str(path))
        folder = Folder("things", 0.01)
        folder.put("a", b"content")
        assert folder.get("a") is None
        folder.trim()
        assert folder.usage().entries == 0


def test_a_disk_that_is_full(folder: Folder) -> None:
    """The existing files stay, and no partial file is left behind."""
    folder.put("a", b"content")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        folder.put("a", b"x" * 1000)
        folder.put("b", b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert folder.get("a") == b"content"
    assert folder.get("b") is None
    assert folder.usage().entries == 1


def test_a_disk_that_cannot_be_written_to(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may be run by one who can write everywhere."""
    folder.put("a", b"content")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(disk, "write", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(disk, "_FRESH", -10.0)
    folder.put("b", b"content")
    assert folder.get("a") == b"content"
    folder.trim(0)
    assert folder.usage().entries == 1


# ** bounds **


def test_the_entries_used_longest_ago_go(folder: Folder) -> None:
    now = time.time()
    for i in range(10):
        folder.put(str(i), b"x" * 5000)
        os.utime(file_of(folder, str(i)), (now, now - 100_000 + i))
    assert folder.get("0") is not None  # which marks it as used
    folder.trim(26_000)
    assert [i for i in range(10) if folder.get(str(i))] == [0, 6, 7, 8, 9]


def test_it_never_takes_much_more_than_its_bound(folder: Folder) -> None:
    for i in range(300):
        folder.put(str(i), b"x" * 2000)
    assert folder.usage().size < 102_000


@pytest.mark.parametrize(
    "text, size",
    [
        ("1000", 1000),
        ("2k", 2048),
        (" 500 MB", None),
        ("500MB", 500 << 20),
        ("8G", 8 << 30),
        ("1T", 1 << 40),
        ("0", 0),
        ("", None),
        ("-1", None),
        ("M", None),
        ("1.5G", None),
        ("9" * 400, None),
    ],
)
def test_the_size_is_read(monkeypatch: pytest.MonkeyPatch, text: str, size: int | None) -> None:
    monkeypatch.setenv("TESSELLA_CACHE_SIZE", text)
    assert disk.bound() == (disk.DEFAULT_BOUND if size is None else size)


def test_a_malformed_size_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE_SIZE", "lots, please")
    assert disk.bound() == disk.bound() == disk.DEFAULT_BOUND
    assert [record.args for record in caplog.records] == [("lots, please",)]


def test_a_size_of_nothing_keeps_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_CACHE_SIZE", "0")
    folder.put("a", b"content")
    assert folder.usage().entries == 0


def test_what_was_begun_long_ago_is_removed(folder: Folder) -> None:
    folder.put("a", b"content")
    old, new = (file_of(folder, "a").with_name(f"{name}.part") for name in ("old", "new"))
    for part in (old, new):
        part.write_bytes(b"")
    os.utime(old, (0, 0))
    folder.trim()
    assert not old.exists()
    assert new.exists()
    assert folder.get("a") == b"content"


# ** many at once **


def test_processes_that_write_and_read_the_same_entries(folder: Folder) -> None:
    program = (
        "from tessella.support.disk import Folder\n"
        "folder = Folder('things', 1.0)\n"
        "for i in range(300):\n"
        "    key = str(i % 7)\n"
        "    found = folder.get(key)\n"
        "    assert found in (None, key.encode() * 3000), found[:10]\n"
        "    folder.put(key, key.encode() * 3000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)
    ]
    stop = threading.Event()

    def trim() -> None:
        while not stop.wait(0.001):
            folder.trim(10_000)

    thread = threading.Thread(target=trim)
    thread.start()
    codes = [process.wait() for process in processes]
    stop.set()
    thread.join()
    assert codes == [0, 0, 0]
    path = folder.path()
    assert path is not None
    assert not list(path.glob("*.part"))
