"""Devices for tests. Their memory consists of byte arrays of this process, which only they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from tessella.runtime.devices import Array, Device, Field, Fields, Launch, Slice, Source
from tessella.support.errors import ExecutionError, ResourceError
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


class _Buffer(bytearray):
    """A buffer for values at some fields."""

    fields: Fields = ()


class FieldDevice(BareDevice):
    """A device whose kernels read and write one memory only."""

    fields: ClassVar[Mapping[str, Field]] = {
        "memory": Field(("global", "local"), "global"),
        "tiling": Field(("linear", "2d"), "linear"),
    }

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[tuple[Fields, Fields]] = []
        """The fields from and to which values were copied within the device."""

    def alloc_at(self, size: int, fields: Fields) -> bytearray:
        buffer = _Buffer(self.alloc(size))
        buffer.fields = fields
        return buffer

    def copy(self, source: Slice, to: Slice) -> None:
        ends = source.buffer.fields, to.buffer.fields
        if ("tiling", "2d") in ends[0]:
            raise ExecutionError("the device cannot copy from tiling=2d")
        self.moves.append(ends)
        self._bytes(to)[:] = self._bytes(source)

    def write(self, to: Slice, array: Array) -> None:
        assert dict(to.buffer.fields) == {"memory": "global", "tiling": "linear"}
        super().write(to, array)

    def launch(self, kernel: str, buffers: Sequence[Slice], launch: Launch) -> None:
        name, memory = kernel.split()
        assert all(dict(part.buffer.fields)["memory"] == memory for part in buffers)
        *inputs, out = (np.frombuffer(self._bytes(part), np.float32) for part in buffers)
        out[:] = OPERATIONS[name](*inputs)


OPERATIONS: Mapping[str, Callable[..., Array]] = {
    "add": np.add,
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
}
FIELDS = FieldDevice()
