"""The site of the documentation."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs import hooks
from docs.blocks import DOCS, ROOT


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "api" / "index.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in ("tessella.frontends.compile.compile",))


def test_links_to_files_become_their_names() -> None:
    page = DOCS / "stages" / "page.md"
    text = "See [the list](../../driver/pipeline.py) and [threads](../threads.md#who-runs)."
    assert hooks.unlinked(text, page) == (
        "See `driver/pipeline.py` and [threads](../threads.md#who-runs)."
    )


def test_a_link_to_a_file_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        hooks.unlinked("[here](../driver/no_such_file.py)", DOCS / "page.md")
    assert "page.md links to ../driver/no_such_file.py, which is not there" in caplog.text
