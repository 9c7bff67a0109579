"""The patterns of `fuse-patterns`, in one table for each family.

Another package adds its own with ``register``, in a module that is an entry point of the group
`tessella.patterns`:

    x = Value("x")
    register(Pattern("mish", Product((x, op(TanhOp, op(SoftplusOp, x)))), becomes(MishOp, "x")))
"""

from __future__ import annotations

from tessella.passes.patterns import (
    activations,
    attention,
    convolutions,
    linear,
    movement,
    normalizations,
    softmax,
)
from tessella.passes.patterns.pattern import Pattern
from tessella.support import plugins

PATTERNS: list[Pattern] = [
    *activations.PATTERNS,
    *normalizations.PATTERNS,
    *softmax.PATTERNS,
    *attention.PATTERNS,
    *linear.PATTERNS,
    *movement.PATTERNS,
    *convolutions.PATTERNS,
]
"""All patterns; the first one that matches at an op is taken."""


def register(*patterns: Pattern) -> None:
    """Add patterns, which are tried after the existing ones."""
    PATTERNS.extend(patterns)


def load() -> None:
    """Import the patterns of plugins."""
    plugins.import_all(plugins.PATTERNS)
