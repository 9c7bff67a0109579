"""Compiled objects are shared, never copied."""

from __future__ import annotations

from typing import Any, Self

from tessella.support.errors import OptionError


class Immutable:
    """Base of immutable compiled objects: `copy` and `deepcopy` return the object itself.

    Subclasses cannot be pickled unless they define how.
    """

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise OptionError(
            "compiled code cannot be pickled: it belongs to this process",
            found=repr(self),
            hint="compile it where it is used; models can be pickled",
        )
