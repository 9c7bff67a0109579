"""Text in DOT, the language of graphviz."""

from __future__ import annotations


def quoted(text: str) -> str:
    """Return text as a quoted string of DOT, which graphviz shows unchanged."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
