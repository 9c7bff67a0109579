"""Environment variables: a value that means nothing is an error, where it is first needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tessella.support import knobs
from tessella.support.errors import OptionError
from tessella.support.knobs import Knobs

ROOT = Path(__file__).parents[2]
FLAGS = {
    "TESSELLA_VERIFY": ("verify", False),
    "TESSELLA_FULL_TRACEBACK": ("full_traceback", False),
    "TESSELLA_LOG_PASSES": ("log_passes", False),
    "TESSELLA_PLUGINS": ("plugins", True),
    "TESSELLA_ELASTIC": ("elastic", True),
    "TESSELLA_PERF": ("perf", False),
}


@pytest.mark.parametrize("text", ["yes", "2", "-1", "01", "\udcff"])
@pytest.mark.parametrize("variable", FLAGS)
def test_a_flag_is_0_or_1(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(OptionError) as caught:
        getattr(Knobs(), FLAGS[variable][0])
    error = caught.value
    assert (variable in error.what, error.expected, error.found) == (True, "0 or 1", repr(text))


@pytest.mark.parametrize("variable", FLAGS)
def test_flags(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, default = FLAGS[variable]
    for text, value in (("0", False), ("1", True), (" 1 ", True), ("", default)):
        monkeypatch.setenv(variable, text)
        assert getattr(Knobs(), name) is value
    monkeypatch.delenv(variable)
    assert getattr(Knobs(), name) is default


@pytest.mark.parametrize("text", ["many", "-1", "2.0", "99999", "\N{SUPERSCRIPT TWO}"])
def test_workers_are_a_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_WORKERS", text)
    with pytest.raises(OptionError, match="TESSELLA_WORKERS") as caught:
        assert Knobs().workers
    assert caught.value.found == repr(text)
    for right, value in (("", None), ("0", 0), ("3", 3)):
        monkeypatch.setenv("TESSELLA_WORKERS", right)
        assert Knobs().workers == value


def test_the_page_and_the_module_list_the_same_variables() -> None:
    page = (ROOT / "docs" / "debugging.md").read_text("utf-8")
    named = re.findall(r"^\| `(TESSELLA_\w+)", page, re.MULTILINE)
    assert sorted(named) == sorted(
        re.findall(r"^\| `(TESSELLA_\w+)", knobs.__doc__ or "", re.MULTILINE)
    )
