"""The interface of an emitter, which writes kernels of the stage `tile` in a device's language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module

from xdsl.ir import Operation

from tessella.dialects.tile import KernelOp
from tessella.runtime.devices import Source, device
from tessella.support.errors import InternalError
from tessella.targets.device_facts import DeviceFacts


class Emitter(ABC):
    """An emitter. It gets kernels of one statement each."""

    @abstractmethod
    def why_not(self, op: Operation) -> str | None:
        """Return why a statement has no code on the device, as a sentence; None if it has."""

    @abstractmethod
    def emit(self, kernel: KernelOp, facts: DeviceFacts) -> Source:
        """Return the code of a kernel for a device with these facts."""


def emitter_of(name: str) -> Emitter:
    """Return the emitter of the device ``name``."""
    return _emitter(device(name).emitter)


@cache
def _emitter(path: str) -> Emitter:
    module, _, attribute = path.partition(":")
    found: object = getattr(import_module(module), attribute)
    if not isinstance(found, Emitter):
        raise InternalError(f"{path} is no emitter", expected="a tessella.passes.emitter.Emitter")
    return found
