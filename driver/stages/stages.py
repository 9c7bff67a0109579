"""The stages of compilation, by name."""

from __future__ import annotations

import os
from pathlib import Path

STAGES = ("nn", "placed", "tile", "loops", "llvm", "asm")
IR_STAGES = STAGES[:4]
"""The stages that can be loaded from text."""

ARTIFACT = ".tsl"
"""The extension of artifacts."""


def stage_of(path: str | os.PathLike[str]) -> str | None:
    """Return the stage in a file, by its extension; None for other files."""
    suffix = Path(path).suffix[1:]
    return suffix if suffix in IR_STAGES else None
