"""The interface of a printer, which writes the trees of kernels in a language."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tessella.codegen.semtree.tree import Kernel
from tessella.passes.emitter import Language
from tessella.targets.device_facts import DeviceFacts


class Printer(Language, ABC):
    """A printer that writes kernel trees in one language, and combines their texts into
    programs."""

    facts: DeviceFacts | None = None
    """The facts of the device that kernels in the language are for; None if the language is one of
    the device that kernels are compiled for."""

    @abstractmethod
    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel, which is a whole program."""
