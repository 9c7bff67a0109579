"""Identifiers for names that may hold anything, as those in models do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


def identifiers(names: Iterable[str], reserved: Collection[str] = ()) -> list[str]:
    """Identifiers of ASCII letters, digits and underscores, all different, and none reserved."""
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
