"""The interface of an emitter, which writes kernels of the stage `tile` in a device's language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module

from xdsl.ir import SSAValue

from tessella.dialects.tile import ContractOp, EmptyOp, KernelOp
from tessella.dialects.tile.selection import SelectionOp
from tessella.runtime.devices import Source, device
from tessella.support.errors import InternalError, OptionError
from tessella.targets.device_facts import DeviceFacts

Statement = ContractOp | SelectionOp
Group = Sequence[Statement]
"""The statements that write one tensor, each a part of it, or a single statement."""


class Language:
    """A language in which kernels are written. It combines the texts of single kernels into a
    program."""

    def program(self, texts: Sequence[str], notes: Sequence[str]) -> str:
        """Return one program with the kernels of several texts, each of which has a note for
        readers."""
        return "\n".join(f"// {note}\n{text}" for text, note in zip(texts, notes, strict=True))

    def file(self, texts: Sequence[str], notes: Sequence[str]) -> bytes:
        """Return the program as the content of a file, which is binary in some languages."""
        return self.program(texts, notes).encode()


class Emitter(ABC):
    """An interface to write kernels in a device's language. Each kernel that an emitter gets has
    the statements of one group."""

    @property
    def language(self) -> Language:
        """The language of the emitted kernels."""
        return Language()

    @abstractmethod
    def why_not(self, group: Group) -> str | None:
        """Return why the statements of a group have no code on the device, as a sentence; None if
        they have."""

    @abstractmethod
    def emit(self, kernel: KernelOp, facts: DeviceFacts) -> Source:
        """Return the source text of a kernel for a device with these properties and speeds."""

    def in_language(self, name: str) -> Emitter | None:
        """Return an emitter that writes the same kernels in another language, for readers; None if
        there is none."""
        return None


def groups_of(statements: Iterable[Statement]) -> Sequence[Group]:
    """Return the statements of a kernel in groups: those that write parts of one tensor together,
    others alone. Each group comes after those whose results it reads."""
    groups: dict[SSAValue, Group] = {}
    for op in statements:
        init = op.init if isinstance(op, ContractOp) else None
        before = () if init is None else groups.pop(init, ())
        groups[op.results[0]] = (*before, op)
    return [*groups.values()]


def obstacle_of(group: Group) -> str | None:
    """Return the reason why no device can run a group as one launch, as a sentence; None if
    there is no reason."""
    for number, op in enumerate(group):
        init = op.init if isinstance(op, ContractOp) else None
        if init is None:
            continue
        if number == 0 and not isinstance(init.owner, EmptyOp):
            return "no code for a statement that writes into an operand"
        if not init.has_one_use():
            return "no code for a tensor that is read between the writes of its parts"
    return None


def emitter_of(name: str, language: str = "") -> Emitter:
    """Return the emitter that writes kernels for the device ``name`` in a language; by default, in
    the device's own. Raises OptionError if there is none for the language."""
    found = _emitter(device(name).emitter)
    other = found.in_language(language) if language else found
    if other is None:
        raise OptionError(f"there is no code for {name} in the language {language!r}")
    return other


@cache
def _emitter(path: str) -> Emitter:
    module, _, attribute = path.partition(":")
    found: object = getattr(import_module(module), attribute)
    if not isinstance(found, Emitter):
        raise InternalError(f"{path} is no emitter", expected="a tessella.passes.emitter.Emitter")
    return found
