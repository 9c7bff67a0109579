"""The site of the documentation."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tessella
from docs import hooks
from docs.blocks import DOCS, ROOT


def public() -> Iterator[str]:
    """The modules and names of what the package lists."""
    for name in tessella.__all__:
        if hasattr(value := getattr(tessella, name), "__qualname__"):
            yield f"{value.__module__}.{value.__qualname__}"


def test_the_reference_has_all_public_names() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: (\S+)$", page, re.MULTILINE)
    missing = [name for name in public() if name not in shown and not is_error(name, shown)]
    assert missing == []


def is_error(name: str, shown: list[str]) -> bool:
    """Return whether a name is shown with all others of its module."""
    module = name.rpartition(".")[0]
    return module in shown and module.endswith(".errors")


def test_the_navigation_lists_each_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"- (?:\w+: )?(\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    assert {*re.findall(r'id="(tessella[^"]*)"', page)} >= set(public())


def test_links_to_files_become_their_names() -> None:
    page = DOCS / "stages" / "page.md"
    text = "See [the list](../../driver/build/pipeline.py) and [threads](../threads.md#who-runs)."
    assert hooks.unlinked(text, page) == (
        "See `driver/build/pipeline.py` and [threads](../threads.md#who-runs)."
    )


def test_a_link_to_a_file_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        hooks.unlinked("[here](../driver/no_such_file.py)", DOCS / "page.md")
    assert "page.md links to ../driver/no_such_file.py, which is not there" in caplog.text
