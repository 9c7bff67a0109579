"""What is compiled cannot leave its process."""

from __future__ import annotations

from typing import NoReturn, Self

from tessella.support.errors import OptionError


class Compiled:
    """A copy is the thing itself, as nothing that a caller sees of it changes; none is pickled."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise OptionError(
            "what is compiled cannot be pickled: its code is of this process",
            found=repr(self),
            hint="compile it where it is used; of a model, `tessella compile` writes a stage",
        )
