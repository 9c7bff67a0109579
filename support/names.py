"""Names: valid identifiers for arbitrary names, and suggestions for unknown ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches


def identifiers(names: Iterable[str], reserved: Collection[str] = ()) -> list[str]:
    """Return an identifier for each name: distinct, of ASCII letters, digits and underscores, and
    not in ``reserved``."""
    found: list[str] = []
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
        base = f"_{base}" if base[0].isdigit() else base
        choice, number = base, 1
        while choice in reserved or choice in found:
            number += 1
            choice = f"{base}_{number}"
        found.append(choice)
    return found


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint that suggests the known name closest to an unknown one; None if none is
    close."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else None
