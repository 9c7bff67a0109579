"""The process that acts as the device: its memory, and its kernels in NumPy."""

# pyright: basic
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

KERNELS: dict[str, Callable[..., Any]] = {
    "far-add": np.add,
    "far-fc": lambda x, w, b, transpose: x @ (w.T if transpose else w) + b,
    "far-matmul": lambda a, b, transpose: a @ (np.swapaxes(b, -1, -2) if transpose else b),
    "far-relu": lambda x: np.maximum(x, 0),
}

Slice = tuple[int, int, int]


class Memory:
    """The memory of the device: buffers by number."""

    def __init__(self) -> None:
        self.buffers: dict[int, bytearray] = {}

    def alloc(self, number: int, size: int) -> None:
        self.buffers[number] = bytearray(size)

    def free(self, number: int) -> None:
        del self.buffers[number]

    def write(self, to: Slice, data: bytes) -> None:
        self._bytes(to)[:] = data

    def read(self, source: Slice) -> bytes:
        return bytes(self._bytes(source))

    def launch(self, text: str, slices: list[Slice]) -> None:
        kernel = json.loads(text)
        arrays = [
            np.frombuffer(self._bytes(part), np.float32).reshape(shape)
            for part, shape in zip(slices, kernel["shapes"], strict=True)
        ]
        arrays[-1][...] = KERNELS[kernel["name"]](*arrays[:-1], **kernel["settings"])

    def finish(self) -> bool:
        return True

    def _bytes(self, part: Slice) -> memoryview:
        number, offset, size = part
        return memoryview(self.buffers[number])[offset : offset + size]


def serve(pipe: Connection) -> None:
    """Run operations in order until the pipe closes. If an operation fails, the next answer is the
    error."""
    memory, error = Memory(), None
    while True:
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        answer = None
        try:
            answer = getattr(memory, name)(*arguments)
        except Exception as raised:
            error = error or raised
        if name in ("read", "finish"):
            pipe.send(error or answer)
            error = None


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
