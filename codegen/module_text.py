"""The frame of every LLVM module: the target, and function attributes."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.targets import Target
from tessella.targets.table import family_of

HEADER = 2
"""The number of lines before the functions of a module."""


def module_text(target: Target, functions: Sequence[str]) -> str:
    """Return a module with these functions; ``HEADER`` lines precede them.

    Functions marked `#0` may use every feature of the target; `#1` are also inlined, `#2` are never
    inlined and cold.
    """
    return "\n".join(
        [
            f'target datalayout = "{family_of(target).data_layout}"',
            f'target triple = "{target.triple}"',
            *functions,
            f"attributes #0 = {{ {_attributes(target)} }}",
            f"attributes #1 = {{ alwaysinline {_attributes(target)} }}",
            f"attributes #2 = {{ noinline cold {_attributes(target)} }}",
            '!0 = !{!"branch_weights", i32 2000, i32 1}',
            '!1 = !{!"branch_weights", i32 1, i32 2000}',
            "",
        ]
    )


def _attributes(target: Target) -> str:
    """Return the attributes of every function, which must agree for inlining.

    512-bit vectors are requested explicitly: LLVM prefers 256 bits at x86-64-v4.
    """
    parts = ["nounwind", f'"target-cpu"="{target.cpu}"']
    if target.features:
        parts.append(f'"target-features"="{target.feature_string}"')
    if target.vector_bits > 256:
        bits = target.vector_bits
        parts += [f'"prefer-vector-width"="{bits}"', f'"min-legal-vector-width"="{bits}"']
    return " ".join(parts)
