"""What mkdocs runs for each page of the site: links to files of the repository become their names.

[driver/build/pipeline.py](../driver/build/pipeline.py)  ->  `driver/build/pipeline.py`
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

_LOG = logging.getLogger("mkdocs.hooks.tessella")
_DOCS = Path(__file__).resolve().parent
_LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<path>(?:\.\./)+[^)#\s]*)\)")


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """The text of a page; a link to a file that is not there is a warning."""
    path = page.file.abs_src_path
    return markdown if path is None else unlinked(markdown, Path(path))


def unlinked(text: str, page: Path) -> str:
    """The text of a page with names for links that leave the folder of the pages."""

    def replaced(link: re.Match[str]) -> str:
        target = (page.parent / link["path"]).resolve()
        if target.is_relative_to(_DOCS):
            return link[0]
        if not target.exists():
            _LOG.warning("%s links to %s, which is not there", page.name, link["path"])
        return f"`{target.relative_to(_DOCS.parent)}`"

    return _LINK.sub(replaced, text)
