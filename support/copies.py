"""What is compiled is not copied."""

from __future__ import annotations

from typing import Any, Self

from tessella.support.errors import OptionError


class Compiled:
    """A copy is the thing itself, as nothing that a caller sees of it changes. None is pickled, but
    for those that say how."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise OptionError(
            "what is compiled cannot be pickled: its code is of this process",
            found=repr(self),
            hint="compile it where it is used; models can be pickled",
        )
