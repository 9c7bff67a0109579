"""Switches: names of kernels that a user turns off or prefers.

`-winograd,+blas` rejects all kernels of Winograd's method, and prefers the kernels `blas`: where
one of them can run an op at the requested places, only they are candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tessella.kernels.registry import HOST_KERNEL, Kernel, all_kernels
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean


@dataclass(frozen=True)
class Switches:
    """The names of kernels, or of their methods, that are off and preferred."""

    off: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    """The first one takes precedence."""

    def refusal(self, kernel: Kernel) -> str | None:
        """Return why a kernel is turned off, as a sentence; None if it is not."""
        name = next((name for name in self.off if name in names_of(kernel)), None)
        return None if name is None else f"-{name} turns it off"

    def preference(self, kernels: Iterable[Kernel]) -> str | None:
        """Return the first preferred name that a kernel has; None if none has one."""
        present = {name for kernel in kernels for name in names_of(kernel)}
        return next((name for name in self.preferred if name in present), None)


NO_SWITCHES = Switches()


def names_of(kernel: Kernel) -> Sequence[str]:
    """Return the names by which a kernel is switched."""
    return [kernel.name, *([] if kernel.method is None else [kernel.method])]


def parse_switches(text: str) -> Switches:
    """Return the switches of a text such as `-winograd,+blas`.

    Raises OptionError for a name without a sign, a name that no kernel has, a name that is off and
    preferred, and `host`, which is the last fallback of every op.
    """
    off: list[str] = []
    preferred: list[str] = []
    known = sorted({name for kernel in all_kernels() for name in names_of(kernel)} - {HOST_KERNEL})
    for part in filter(None, text.split(",")):
        sign, name = part[0], part[1:]
        if sign in "+-" and name not in known:
            raise OptionError(
                f"no kernel that can be switched has the name {name!r}",
                where=f"the switches {text!r}",
                expected="the name of a kernel or of a method, as explain() shows them",
                found=repr(part),
                hint=did_you_mean(name, known),
            )
        if sign not in "+-":
            raise OptionError(
                f"cannot read the switch {part!r} of kernels",
                expected="-NAME for kernels that are off, +NAME for preferred ones",
                found=repr(text),
                hint=did_you_mean(part, [sign + name for sign in "-+" for name in known]),
            )
        (preferred if sign == "+" else off).append(name)
    if both := [name for name in off if name in preferred]:
        raise OptionError(
            f"the kernels {both[0]!r} are both off and preferred",
            where=f"the switches {text!r}",
            expected=f"-{both[0]} or +{both[0]}",
        )
    return Switches(tuple(off), tuple(preferred))
