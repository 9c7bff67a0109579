"""Text in the language of graphviz, DOT."""

from __future__ import annotations


def quoted(text: str) -> str:
    """Return a text as a string of graphviz, which shows it as it is."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
