"""Vector math functions for any number of lanes, so that no code calls the C library."""

from tessella.codegen.vecmath.table import FUNCTIONS, call, define

__all__ = ["FUNCTIONS", "call", "define"]
