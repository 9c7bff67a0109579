"""The index maths of the Tile language: from index expressions to ranges and accesses."""

from tessella.dialects.tile.maths.forms import Affine
from tessella.dialects.tile.maths.normalize import Normal, normalize
from tessella.dialects.tile.maths.variables import Bounded

__all__ = ["Affine", "Bounded", "Normal", "normalize"]
