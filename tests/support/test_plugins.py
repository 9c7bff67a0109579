"""Entry points of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tessella.support.errors import PluginError
from tessella.support.knobs import KNOBS
from tessella.support.plugins import KERNELS, import_all, plugins
from tests.plugins import Installer, forget


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Installer]:
    yield Installer(tmp_path, monkeypatch)
    forget()


def test_plugins_are_imported_when_they_are_needed(install: Installer) -> None:
    install("fine_plugin", "x = 1", {KERNELS: {"b": "fine_plugin", "a": "fine_plugin:x"}})
    found = [plugin for plugin in plugins(KERNELS) if plugin.package == "fine_plugin"]
    assert [plugin.name for plugin in found] == ["a", "b"]
    assert "fine_plugin" not in sys.modules
    assert found[0].load() == 1
    assert found[1].load() is sys.modules["fine_plugin"]


def test_plugins_can_be_left_out(install: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    install("left_plugin", "raise RuntimeError", {KERNELS: {"a": "left_plugin"}})
    monkeypatch.setattr(KNOBS, "plugins", False)
    assert not plugins(KERNELS)
    import_all(KERNELS)


@pytest.mark.parametrize(
    "source, value, reason",
    [
        ("raise RuntimeError('out of luck')", "broken_plugin", "RuntimeError: out of luck"),
        ("import no_such_module", "broken_plugin", "No module named 'no_such_module'"),
        ("def f(:", "broken_plugin", "SyntaxError"),
        ("", "broken_plugin:missing", "no attribute 'missing'"),
    ],
)
def test_a_broken_plugin_is_named(source: str, value: str, reason: str, install: Installer) -> None:
    install("broken_plugin", source, {KERNELS: {"entry": value}})
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            import_all(KERNELS)
        message = str(caught.value)
        assert "the plugin 'entry' of the package 'broken_plugin' is broken" in message
        assert f'"tessella.kernels"] entry = "{value}"' in message
        assert "TESSELLA_PLUGINS=0" in message
        assert reason in message


def test_half_a_module_is_not_imported_again(install: Installer, tmp_path: Path) -> None:
    source = f"with open({str(tmp_path / 'log')!r}, 'a') as log: log.write('x')\nraise RuntimeError"
    install("half_plugin", source, {KERNELS: {"a": "half_plugin"}})
    for _ in range(3):
        with pytest.raises(PluginError):
            import_all(KERNELS)
    assert (tmp_path / "log").read_text() == "x"
