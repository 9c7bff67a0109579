"""Kernels for AArch64 run on another machine: a program without a library, under `qemu-aarch64`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_EMULATOR = "qemu-aarch64"
_ASSEMBLER = "aarch64-linux-gnu-as"
_LINKER = "aarch64-linux-gnu-ld"

_ALIGNMENT = 64

_PROGRAM = """
.global _start
_start:
  mov x0, #0
  ldr x1, =data
  ldr x2, ={size}
  mov x8, #63
  svc #0
  ldr x0, =buffers
  mov x1, #0
  mov x2, #1
  bl k
  mov x0, #1
  ldr x1, =data
  ldr x2, ={size}
  mov x8, #64
  svc #0
  mov x0, #0
  mov x8, #93
  svc #0
.data
.balign 8
buffers:
  .quad {pointers}
.bss
.balign 64
data:
  .skip {size}
"""
"""Reads all buffers from standard input (Linux's call 63), runs the kernel, writes them (64)."""


def available() -> bool:
    """Whether the emulator and a linker for its programs are installed."""
    return all(shutil.which(program) for program in (_EMULATOR, _ASSEMBLER, _LINKER))


def run(image: bytes, arrays: Sequence[Array]) -> None:
    """Call the kernel `k` of an object on the arrays in place."""
    offsets: list[int] = []
    size = 0
    for array in arrays:
        offsets.append(size)
        size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    pointers = ", ".join(f"data + {offset}" for offset in offsets)
    memory = bytearray(size)
    for array, offset in zip(arrays, offsets, strict=True):
        memory[offset : offset + array.nbytes] = array.tobytes()
    output = _execute(image, _PROGRAM.format(size=size, pointers=pointers), bytes(memory))
    for array, offset in zip(arrays, offsets, strict=True):
        part = output[offset : offset + array.nbytes]
        array[...] = np.frombuffer(part, array.dtype).reshape(array.shape)


def _execute(image: bytes, program: str, memory: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.o").write_bytes(image)
        # A file, as reading a pipe may give less than was asked for.
        (folder / "input").write_bytes(memory)
        _tool(folder, _ASSEMBLER, "-o", "start.o", "-", text=program)
        _tool(folder, _LINKER, "-static", "-o", "program", "start.o", "kernel.o")
        with (folder / "input").open("rb") as file:
            command = [_EMULATOR, folder / "program"]
            return subprocess.run(command, stdin=file, capture_output=True, check=True).stdout


def _tool(folder: Path, *command: str, text: str = "") -> None:
    subprocess.run(command, cwd=folder, input=text, text=True, check=True)
