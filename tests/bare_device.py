"""A device for tests. Its memory consists of byte arrays of this process, which only it reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.runtime.devices import Array, Device, Launch, Slice, Source
from tessella.support.errors import ResourceError
from tessella.targets.device_facts import DeviceFacts

LIMIT = 1 << 20
"""The size of the device's memory in bytes."""


FACTS = DeviceFacts(flops=1e9, bandwidth=1e9, link=1e12, latency=1e-9, launch=1e-6)


class BareDevice(Device):
    """A device with one kernel, `double`, and a queue that runs when the host waits."""

    @property
    def facts(self) -> DeviceFacts:
        return FACTS

    def __init__(self) -> None:
        super().__init__()
        self.used = 0
        self.built_texts: list[str] = []

    def alloc(self, size: int) -> bytearray:
        if self.used + size > LIMIT:
            raise ResourceError("the bare device has no memory left")
        self.used += size
        return bytearray(size)

    def free(self, buffer: bytearray) -> None:
        self.used -= len(buffer)

    def write(self, to: Slice, array: Array) -> None:
        self._bytes(to)[:] = array.tobytes()

    def read(self, source: Slice, array: Array) -> None:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(self._bytes(source), np.uint8)

    def build(self, source: Source) -> str:
        self.built_texts.append(source.text)
        return source.text

    def launch(self, kernel: str, buffers: Sequence[Slice], launch: Launch) -> None:
        if kernel != "double":
            raise KeyError(kernel)
        x, y = (np.frombuffer(self._bytes(part), np.float32) for part in buffers)
        y[:] = 2 * x

    def finish(self) -> None:
        pass

    def _bytes(self, part: Slice) -> memoryview:
        return memoryview(part.buffer)[part.offset : part.offset + part.size]


BARE = BareDevice()
