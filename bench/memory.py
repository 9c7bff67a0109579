"""Memory that compilations leave: compile different models one after another, and drop each.

    python -m bench.memory --compiles 300 --every 30

Nothing collects garbage between, as in an application. A line is printed for every 30 compilations,
in MiB: private memory of the process; the arenas of Python's allocator, and what objects use of
them; the heap of the C library, and what is used of it, which includes LLVM's share. Arenas that
grow while the use stays the same are fragmented; where the use grows, objects are kept.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

import tessella

_MIB = 1 << 20
_COLUMNS = "compiles", "private", "arenas", "objects", "heap", "in use"


@dataclass(frozen=True)
class Case:
    """A model of one input, one constant and one output."""

    nodes: Sequence[onnx.NodeProto]
    shape: tuple[int, ...]
    rank: int
    """The rank of the output."""
    constant: tuple[int, ...]
    """The shape of the constant."""


def main() -> None:
    """Print a line for each group of compilations."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--compiles", type=int, default=300)
    parser.add_argument("--every", type=int, default=30)
    arguments = parser.parse_args()
    print(" ".join(f"{name:>9}" for name in _COLUMNS), flush=True)
    for number in range(1, arguments.compiles + 1):
        compile_and_drop(number)
        if number % arguments.every == 0:
            row = (f"{size / _MIB:9.2f}" for size in (private(), *python_arenas(), *heap()))
            print(f"{number:9}", *row, flush=True)


def compile_and_drop(number: int) -> None:
    """Compile and call a model that differs from the hundred before it."""
    case = CASES[number % len(CASES)](number)
    values = np.random.default_rng(number).standard_normal(case.constant).astype(np.float32)
    names = [f"d{axis}" for axis in range(case.rank)]
    graph = helper.make_graph(
        case.nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, case.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, names)],
        [numpy_helper.from_array(values, "w")],
    )
    data = helper.make_model(graph, ir_version=10).SerializeToString()
    x: npt.NDArray[np.float32] = np.ones(case.shape, np.float32)
    tessella.compile(data)(x)


def _size(number: int) -> int:
    return 3 + 37 * number % 101


def _convolution(number: int) -> Case:
    side = 8 + number % 3
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    return Case(nodes, (1, 3, side, side), 4, (_size(number), 3, 3, 3))


def _product(number: int) -> Case:
    activation = ("Relu", "Tanh", "Sigmoid", "Exp")[number // len(CASES) % 4]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node(activation, ["t"], ["y"]),
    ]
    return Case(nodes, (1 + number % 7, _size(number)), 2, (_size(number), 2 + number % 5))


def _moved(number: int) -> Case:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Concat", ["t", "w"], ["u"], axis=0),
        helper.make_node("Tanh", ["u"], ["y"]),
    ]
    return Case(nodes, (_size(number), 8 + number % 9), 2, (3, _size(number)))


def _pooled(number: int) -> Case:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["t"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["t", "w"], ["y"]),
    ]
    return Case(nodes, (1, _size(number), 8 + number % 9, 8), 4, (1, _size(number), 1, 1))


CASES: Sequence[Callable[[int], Case]] = (_convolution, _product, _moved, _pooled)
"""Kinds of models, used in turn."""


def private() -> int:
    """Return the private memory of this process, in bytes."""
    with open("/proc/self/smaps_rollup") as file:
        return 1024 * _number(r"Private_Dirty:\s+(\d+)", file.read())


def python_arenas() -> tuple[int, int]:
    """Return the bytes of the arenas of Python's allocator, and those of the objects in them."""
    with tempfile.TemporaryFile("w+") as file:
        # Python only prints these figures
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()  # pyright: ignore[reportPrivateUsage]
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text = file.read()
    total = _number(r"arenas \* \d+ bytes/arena\s*=\s*([\d,]+)", text)
    return total, _number(r"# bytes in allocated blocks\s*=\s*([\d,]+)", text)


class _Mallinfo(ctypes.Structure):
    """The result of glibc's ``mallinfo2``."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def heap() -> tuple[int, int]:
    """Return the bytes of the C library's heap, and those in use, with memory mappings included."""
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Mallinfo
    found = library.mallinfo2()
    return found.arena + found.hblkhd, found.uordblks + found.hblkhd


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise LookupError(pattern)
    return int(found.group(1).replace(",", ""))


if __name__ == "__main__":
    main()
