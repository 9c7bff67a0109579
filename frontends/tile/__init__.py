"""The Tile language: contractions over named indices, as in PlaidML, in; native kernels out."""

from __future__ import annotations

from tessella.frontends.tile.program import TileProgram, tile

__all__ = ["TileProgram", "tile"]
