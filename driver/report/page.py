"""A report as a page: one HTML file that needs no network.

The data is compressed JSON, which the page's scripts show as text only: nothing that a model names
becomes markup. A policy in the page forbids all other scripts, and all connections.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_STATIC = Path(__file__).parent / "static"
_LIBRARIES = ("vendor/d3.min.js", "vendor/dagre.min.js")
_SCRIPTS = (
    "data.js",
    "dom.js",
    "overview.js",
    "graph.js",
    "details.js",
    "panes.js",
    "table.js",
    "roofline.js",
    "passes.js",
    "memory.js",
    "threads.js",
    "compilation.js",
    "compare.js",
    "main.js",
)
"""The page's own scripts, in the order in which they run."""


def page(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of a report, or of two reports side by side. A report is an object as its
    JSON has it."""
    data = json.dumps(list(reports), ensure_ascii=False, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(data.encode(), mtime=0)).decode()
    style, own = _text("page.css"), "\n".join(map(_text, _SCRIPTS))
    libraries = [_text(name) for name in _LIBRARIES]
    scripts = [*libraries, f'"use strict";\n(() => {{\n{own}\n}})();\n']
    title = " and ".join(str(report["model"]["name"]) for report in reports)
    values = {
        "title": escape(f"{title} - tessella report"),
        "policy": _policy(style, scripts),
        "style": style,
        "data": packed,
        "scripts": "\n".join(f"<script>{each}</script>" for each in scripts),
    }
    return _filled(_text("page.html"), values)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with each `{{name}}` replaced by its value. Placeholders in values are not
    replaced."""
    first, *rest = template.split("{{")
    parts = [first]
    for each in rest:
        name, _, after = each.partition("}}")
        parts += [values[name], after]
    return "".join(parts)


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Return the content security policy that allows these inline scripts and this style only."""
    allowed = " ".join(map(_hash, scripts))
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _text(name: str) -> str:
    """Return a file of the page, without a reference to a source map that the page lacks."""
    text = (_STATIC / name).read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("//# sourceMappingURL"))
    return "\n".join(lines)
