"""The symbolic sizes of a kernel, which are its arguments.

A kernel computes with the values of expressions, such as ``64 * seq`` and ``seq floordiv 16``. The
program evaluates them for each launch.
"""

from __future__ import annotations

from tessella.support.sizes import Expr, Size, Symbol


class SizeArguments:
    """The table of a kernel's size arguments. Calling it with a size returns a number as it is, and
    an expression of symbols as the argument that holds its value."""

    def __init__(self) -> None:
        self._names: dict[Expr, Symbol] = {}

    def __call__(self, size: Size) -> Size:
        if not isinstance(size, Expr):
            return size
        low, high = size.bounds
        made = Symbol(f"s{len(self._names)}", low, high)
        return self._names.setdefault(size, made).size

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(symbol.name for symbol in self._names.values())

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that are the arguments, in the order of their names."""
        return tuple(self._names)
