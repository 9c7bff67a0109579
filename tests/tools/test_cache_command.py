"""`tessella cache`."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tessella.codegen import kernel_cache
from tessella.tools.cli import main


def test_show_and_clear(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    assert main(["cache"]) == 0
    assert "kernels         0 entries" in capsys.readouterr().out
    for key in "abc":
        kernel_cache.FOLDER.put(key, bytes(1 << 20))
    assert main(["cache", "show"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(str(tmp_path))
    assert "kernels         3 entries       3.0 MiB of at most 256" in output
    assert main(["cache", "clear"]) == 0
    assert "kernels         0 entries" in capsys.readouterr().out
    assert kernel_cache.FOLDER.get("a") is None


def test_what_cannot_be_cleared_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    for key in "ab":
        kernel_cache.FOLDER.put(key, b"content")

    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["cache", "clear"]) == 2
    assert "2 entries cannot be removed" in capsys.readouterr().err


def test_it_is_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    assert main(["cache", "clear"]) == 0
    assert "there is no cache" in capsys.readouterr().out
    assert main(["cache", "nonsense"]) == 2
