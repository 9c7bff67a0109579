"""The check of public docstrings finds what is missing."""

from __future__ import annotations

import pytest

import tessella
from docs.docstrings import problems, public_names

CHECKS = ("GL08", "SS03", "PR01", "RT01")


def test_public_names() -> None:
    names = [*public_names()]
    assert {"tessella.compile", "tessella.Model.run", "tessella.InferenceSession.run"} <= {*names}
    assert len(names) == len({*names})
    assert len(names) > 80


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str) -> str:
        """Load it. Raises InputError"""
        return path

    name = "tessella.load"
    assert [*problems(name, CHECKS)] == []
    monkeypatch.setattr(tessella, "load", load)
    found = [problem.partition("tessella.load: ")[2] for problem in problems(name, CHECKS)]
    assert [text[:4] for text in found] == ["SS03", "PR01", "RT01", "erro"]
    assert [*problems(name, ())] == [*problems(name, CHECKS)][-1:]
