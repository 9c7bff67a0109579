"""The interface of a printer, which writes the trees of kernels in a language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tessella.codegen.semtree.tree import Kernel
from tessella.targets.device_facts import DeviceFacts


class Printer(ABC):
    """A printer of trees."""

    facts: DeviceFacts | None = None
    """The facts of the device that kernels in the language are for; None if the language is one of
    the device that kernels are compiled for."""

    @abstractmethod
    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel, which is a whole program."""

    @abstractmethod
    def join(self, texts: Sequence[str], notes: Sequence[str]) -> str:
        """Return one program with the kernels of several texts, each of which has a note for
        readers."""

    def file(self, texts: Sequence[str], notes: Sequence[str]) -> bytes:
        """Return the program as the content of a file."""
        return self.join(texts, notes).encode()
