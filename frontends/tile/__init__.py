"""The Tile language, PlaidML's contractions over named indices, compiled to native kernels."""

from __future__ import annotations

from tessella.frontends.tile.program import TileProgram, tile

__all__ = ["TileProgram", "tile"]
