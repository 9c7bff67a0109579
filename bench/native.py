"""Native kernels called outside their program, on separate buffers."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import MemRefType, ModuleOp

from tessella.codegen.emit import emit_kernel
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.dialects.layout import Layout, pack
from tessella.dialects.nn.core import dtype_of
from tessella.dialects.rt import KernelOp
from tessella.runtime.arena import aligned
from tessella.runtime.image import Library
from tessella.runtime.pool import CONTEXT_SLOTS
from tessella.targets import Target

Array = npt.NDArray[Any]

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Code:
    """The object code of a kernel, and its buffers; it can be sent to another process."""

    name: str
    image: bytes
    buffers: tuple[tuple[str, int], ...]
    """Dtype and number of elements of each argument: operands, results, scratch."""


def compile_kernels(
    loops: ModuleOp, target: Target, names: Iterable[str], most: int | None = None
) -> dict[str, Code]:
    """Compile these kernels of a module at the stage `loops`.

    Raises ValueError if the LLVM IR of one has more than ``most`` characters.
    """
    wanted = set(names)
    return {
        op.sym_name.data: _compile(op, target, most)
        for op in loops.body.block.ops
        if isinstance(op, KernelOp) and op.sym_name.data in wanted
    }


def _compile(kernel: KernelOp, target: Target, most: int | None) -> Code:
    text = emit_kernel(kernel, target)
    if most is not None and len(text) > most:
        raise ValueError(f"{len(text)} characters of LLVM IR are too many")
    buffers = tuple(_buffer(argument.type) for argument in kernel.buffers)
    return Code(kernel.sym_name.data, optimize_and_emit(text, target), buffers)


def _buffer(type: object) -> tuple[str, int]:
    assert isinstance(type, MemRefType)
    return np.dtype(dtype_of(type.element_type)).name, type.get_shape()[0]


class Kernel:
    """A callable kernel, on buffers that others may share."""

    def __init__(self, code: Code, buffers: Sequence[Array]) -> None:
        self.buffers = list(buffers)
        self._context = np.zeros(CONTEXT_SLOTS, np.int64)
        self._library = Library(link({code.name: code.image}))
        addresses = [array.ctypes.data for array in (self._context, *buffers)]
        self._pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        self._function = _CALL(self._library.address(code.name))

    def __call__(self) -> None:
        self._function(self._pointers, 0, 1)


class Memory:
    """Shared buffers for kernels that are compared, as the position of buffers affects speed."""

    def __init__(self, operands: Sequence[Array]) -> None:
        self._operands = operands
        self._buffers: dict[Hashable, Array] = {}

    def of(self, code: Code, layouts: Sequence[Layout] = ()) -> list[Array]:
        """Return the buffers of a kernel: the operands in these layouts, then zeros."""
        return [
            self._operand(i, layouts[i], dtype) if i < len(layouts) else self._zeros(i, dtype, size)
            for i, (dtype, size) in enumerate(code.buffers)
        ]

    def _operand(self, number: int, layout: Layout, dtype: str) -> Array:
        key = (number, layout)
        if key not in self._buffers:
            packed = pack(self._operands[number], layout)
            self._buffers[key] = _allocate(dtype, packed.size)
            self._buffers[key][:] = packed
        return self._buffers[key]

    def _zeros(self, number: int, dtype: str, size: int) -> Array:
        key = (number, dtype, size)
        if key not in self._buffers:
            self._buffers[key] = _allocate(dtype, size)
        return self._buffers[key]


def _allocate(dtype: str, size: int) -> Array:
    kind = np.dtype(dtype)
    buffer = aligned(size * kind.itemsize).view(kind)
    buffer.fill(0)
    return buffer
