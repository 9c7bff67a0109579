"""Files that are read as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def regular(path: str | os.PathLike[str]) -> Path:
    """Return the path of a regular file. Raises OSError for a file of another kind, as a pipe would
    keep its reader waiting."""
    found = Path(path)
    if not found.is_file() and found.exists():
        raise OSError("it is not a regular file")
    return found
