"""The device: it sends operations to another process, which runs them in order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from multiprocessing.connection import Pipe
from typing import Any

import numpy as np

from tessella.runtime.devices import Array, Device, Launch, Slice, Source
from tessella.support.errors import ExecutionError
from tessella.targets.device_facts import DeviceFacts

FACTS = DeviceFacts(flops=1e12, bandwidth=1e11, link=1e9, latency=1e-5, launch=1e-6)
"""The facts of the simulated device: it is fast, and its link is slow."""


class FarDevice(Device):
    """A device in another process. Its buffers are numbers."""

    @property
    def facts(self) -> DeviceFacts:
        return FACTS

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    @cached_property
    def _process(self) -> Any:
        """This end of the pipe to the process. The first operation starts the process, which exits
        when the pipe closes."""
        here, there = Pipe()
        command = [sys.executable, "-m", "far.server", str(there.fileno())]
        environment = {"PYTHONPATH": ":".join(sys.path)}
        subprocess.Popen(command, pass_fds=[there.fileno()], env=environment)
        there.close()
        return here

    def _send(self, *message: Any) -> None:
        self._process.send(message)

    def _ask(self, *message: Any) -> Any:
        self._send(*message)
        answer = self._process.recv()
        if isinstance(answer, Exception):
            raise ExecutionError(f"the device far: {answer}") from answer
        return answer

    def alloc(self, size: int) -> int:
        number = next(self._numbers)
        self._send("alloc", number, size)
        return number

    def free(self, buffer: int) -> None:
        self._send("free", buffer)

    def write(self, to: Slice, array: Array) -> None:
        self._send("write", tuple(to), array.tobytes())

    def read(self, source: Slice, array: Array) -> None:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(
            self._ask("read", tuple(source)), np.uint8
        )

    def build(self, source: Source) -> str:
        return source.text

    def launch(self, kernel: str, buffers: Sequence[Slice], launch: Launch) -> None:
        self._send("launch", kernel, [tuple(buffer) for buffer in buffers])

    def finish(self) -> None:
        self._ask("finish")


FAR = FarDevice()
