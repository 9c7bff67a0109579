"""Blocks of code in the documentation are what their commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import snippets

ROOT = Path(snippets.__file__).parent.parent


@pytest.mark.parametrize("page", snippets.pages(), ids=lambda page: page.name)
def test_blocks_are_what_their_commands_print(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = [f"{block.page.name}:{block.line}: {block.command}" for block in snippets.stale(page)]
    assert not found, "python -m docs.snippets --write makes them anew"


def test_a_range_of_lines() -> None:
    text = "a\n  b\n  c\n  d\ne\n"
    assert snippets.show(text, '"b" .. "c"') == "  b\n  c\n"
    assert snippets.show(text, '"a", "  d" .. "e"') == "a\n  ...\n  d\ne\n"
    with pytest.raises(ValueError, match="no line after line 0 matches 'x'"):
        snippets.show(text, '"x"')


def test_a_block_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippets, "run", lambda command: f"output of {command}\nmore\n")
    page = '<!-- $ tessella x | show "output" -->\n```\nold\n```\nrest\n'
    assert snippets.renewed(page).splitlines()[1:] == ["```", "output of tessella x", "```", "rest"]


def test_a_wrong_command_says_so() -> None:
    with pytest.raises(ValueError, match="no command 'ls'"):
        snippets.run("ls -l")
