"""The generated pages are up to date, and the page of `nn` ops has all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generated, nn_ops
from tessella.dialects import nn


@pytest.mark.parametrize("name", generated.PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert not generated.is_stale(name), "run make pages"


def test_stale_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generated, "DOCS", tmp_path)
    monkeypatch.setattr(generated, "PAGES", {"a.md": lambda: "new\n", "b.md": lambda: "same\n"})
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("same\n")
    assert generated.main([]) == 1
    assert generated.main(["--write"]) == 0
    assert (tmp_path / "a.md").read_text() == "new\n"
    assert generated.main([]) == 0


def test_each_op_has_a_section_or_a_row() -> None:
    found = re.findall(r"^(?:### |\| )`([a-z_0-9]+)`", nn_ops.page(), re.MULTILINE)
    assert sorted(found) == sorted(op.name.removeprefix("nn.") for op in nn.Nn.operations)


def test_each_section_of_an_op_has_an_example() -> None:
    sections = re.split(r"^### ", nn_ops.page(), flags=re.MULTILINE)[1:]
    without = [text.partition("\n")[0] for text in sections if not re.search(r"nn\.\w+[ (]", text)]
    assert without == []
