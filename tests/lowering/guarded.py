"""Runs programs whose inputs, outputs, weights and arena end, or begin, at a page that nobody may
touch. A read or write beyond them ends the process: run it as one of its own.

    python -m tests.lowering.guarded avx2
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp, PyValue, element_type
from tessella.driver.model.model import Model
from tessella.runtime import arena, sharing
from tessella.runtime.elements import DTYPES, converted, widened
from tests.native import RUNNABLE, Array, GraphBuilder, build, normal
from tests.sampling import alternate
from tests.shared_kernels import share

PAGE = mmap.PAGESIZE
FILL = 0xA5


class Memory:
    """Hands out arrays at the edge of their mapping: at its end, or at its beginning."""

    def __init__(self, *, at_end: bool) -> None:
        self.at_end = at_end
        self.maps: list[tuple[mmap.mmap, slice]] = []
        self.libc = ctypes.CDLL(None, use_errno=True)

    def bytes(self, size: int, alignment: int = 1) -> Array:
        """Uninitialised bytes: as close to the guard as the alignment allows."""
        pages = -(-size // PAGE) * PAGE
        mapping = mmap.mmap(-1, PAGE + pages + PAGE)
        whole = np.frombuffer(mapping, np.uint8)
        whole[:] = FILL
        for guard in (0, PAGE + pages):
            self._protect(whole.ctypes.data + guard)
        start = PAGE + (pages - size) // alignment * alignment if self.at_end else PAGE
        used = slice(start, start + size)
        self.maps.append((mapping, used))
        return whole[used]

    def _protect(self, address: int) -> None:
        none = 0
        if self.libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), none):
            raise OSError(ctypes.get_errno(), "mprotect failed")

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array at the edge."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        return self.bytes(size).view(kind).reshape(tuple(shape))

    def aligned(self, size: int) -> Array:
        """A replacement for ``arena.aligned``."""
        return self.bytes(size, arena.ALIGNMENT)

    def copy(self, array: Array) -> Array:
        """An array's copy at the edge."""
        place = self.empty(array.shape, array.dtype)
        place[...] = array
        return place

    def check(self) -> None:
        """Assert that nothing was written beside the arrays, on the pages that they are on."""
        for mapping, used in self.maps:
            whole = np.frombuffer(mapping, np.uint8)
            before, after = whole[PAGE : used.start], whole[used.stop : len(whole) - PAGE]
            assert (before == FILL).all(), "written before an array"
            assert (after == FILL).all(), "written after an array"


@dataclass
class Outputs:
    """The memory of a program's outputs."""

    memory: Memory

    def recycler(self) -> SimpleNamespace:
        """A replacement for ``arena.Recycler``."""
        return SimpleNamespace(maker=lambda *kind: lambda: self.memory.empty(*kind))


@contextmanager
def guarded_runtime() -> Generator[tuple[Memory, Memory, Outputs]]:
    """Memory at the ends of pages, which the runtime takes meanwhile, memory at their beginnings,
    and where outputs go: at the ends too, until they are told otherwise."""
    end, begin = Memory(at_end=True), Memory(at_end=False)
    outputs = Outputs(end)
    with (
        mock.patch.object(sharing, "aligned", end.aligned),
        mock.patch.object(arena, "aligned", end.aligned),
        mock.patch.object(arena, "Recycler", outputs.recycler),
    ):
        yield end, begin, outputs


def compare(
    make: Callable[[], Model], inputs: Mapping[str, Array], wanted: Sequence[Array]
) -> Model:
    """A model run with all its memory at the ends of pages, then with inputs and outputs at their
    beginnings."""
    with guarded_runtime() as (end, begin, outputs):
        model = make()
        for memory in (end, begin):
            outputs.memory = memory
            guarded = {name: memory.copy(array) for name, array in inputs.items()}
            for y, expected in zip(model.run(None, guarded), wanted, strict=True):
                np.testing.assert_allclose(widened(y), widened(expected), rtol=1e-4, atol=1e-4)
            memory.check()
    return model


@dataclass(frozen=True)
class Case:
    """A program of one op; ``constants`` are the operands that are weights."""

    kind: type[NnOp]
    operands: Sequence[Array]
    settings: dict[str, PyValue] = field(default_factory=dict[str, PyValue])
    constants: Sequence[int] = ()
    places: tuple[str, ...] | None = None

    @property
    def inputs(self) -> dict[str, Array]:
        return {f"x{i}": a for i, a in enumerate(self.operands) if i not in self.constants}

    def graph(self) -> Graph:
        g = GraphBuilder(**self.inputs)
        values = [
            g.weight(a, f"w{i}") if i in self.constants else g.inputs[f"x{i}"]
            for i, a in enumerate(self.operands)
        ]
        return g.graph(g.op(self.kind, values, **self.settings))

    def run(self, target: str) -> None:
        """Compare with the interpreter, on guarded memory."""
        wanted = interpret(self.graph(), self.inputs)
        model = compare(lambda: build(self.graph, target, self.places), self.inputs, wanted)
        kernels = {str(entry["kernel"]) for entry in model.explain().ops}
        assert "host" not in kernels, "this ran in NumPy"

    def __str__(self) -> str:
        shapes = " ".join(f"{a.dtype}{list(a.shape)}" for a in self.operands)
        return f"{self.kind.name} {shapes} {self.settings}"


def indices(extent: int, *shape: int) -> Array:
    """Indices, the last element's among them."""
    found = np.asarray(np.random.default_rng(shape).integers(-extent, extent, shape))
    found.flat[-1] = -1
    return found


def sums(x: Array) -> dict[str, PyValue]:
    """The element of the sums of products of bytes."""
    return {"sums": attribute_of("i32")} if x.dtype == np.uint8 else {}


def conv(
    x: Array, w: Array, *, pad: int = 0, stride: int = 1, groups: int = 1, constant: bool = True
) -> Case:
    rank = x.ndim - 2
    settings: dict[str, PyValue] = {
        "strides": (stride,) * rank, "pads": (pad,) * (2 * rank), "dilations": (1,) * rank,
        "groups": groups,
    }  # fmt: skip
    return Case(nn.ConvOp, [x, w], settings | sums(x), [1] if constant else [])


def transposed(
    x: Array, w: Array, *, pad: int = 0, stride: int = 2, groups: int = 1, constant: bool = True
) -> Case:
    rank = x.ndim - 2
    settings: dict[str, PyValue] = {
        "strides": (stride,) * rank, "pads": (pad,) * (2 * rank), "dilations": (1,) * rank,
        "output_pads": (1,) * rank, "groups": groups,
    }  # fmt: skip
    return Case(nn.ConvTransposeOp, [x, w], settings, [1] if constant else [])


def pool(kind: type[NnOp], x: Array, kernel: int, stride: int, pad: int, **more: PyValue) -> Case:
    settings: dict[str, PyValue] = {
        "kernel_shape": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4,
        "dilations": (1, 1), "ceil_mode": False, **more,
    }  # fmt: skip
    return Case(kind, [x], settings)


def matmul(a: Array, b: Array, *, transposed: bool, constant: bool) -> Case:
    settings: dict[str, PyValue] = {"transpose_b": transposed, **sums(a)}
    return Case(nn.MatmulOp, [a, b], settings, [1] if constant else [])


def slices(x: Array, **settings: tuple[int, ...]) -> Case:
    return Case(nn.SliceOp, [x], dict(settings))


def cases() -> Iterator[Case]:
    """Odd sizes: none is a multiple of the lanes, and rows begin anywhere."""
    for family in (convolution_cases, row_cases, product_cases, axis_cases, element_cases):
        yield from family()
    yield from narrow_cases()
    yield from byte_cases()


def convolution_cases() -> Iterable[Case]:
    """Convolutions, also transposed ones, and pools."""
    return [
        conv(normal(1, 3, 7, 9), normal(5, 3, 3, 3), pad=1),
        conv(normal(1, 7, 9, 7), normal(19, 7, 3, 3), pad=1, stride=2),
        conv(normal(2, 9, 5, 5), normal(35, 9, 1, 1)),
        conv(normal(1, 5, 11, 7), normal(5, 1, 3, 3), pad=1, groups=5),
        conv(normal(1, 21, 6, 5), normal(21, 1, 5, 5), pad=2, groups=21),
        conv(normal(1, 6, 5, 9), normal(10, 3, 3, 3), groups=2),
        conv(normal(1, 5, 7, 7), normal(9, 5, 3, 3), pad=2, constant=False),
        conv(normal(1, 3, 29), normal(7, 3, 5), pad=2),
        conv(normal(1, 2, 5, 5, 5), normal(3, 2, 3, 3, 3), pad=1),
        transposed(normal(1, 7, 5, 3), normal(7, 19, 3, 3), pad=1),
        transposed(normal(2, 3, 3, 5), normal(3, 17, 2, 2), pad=3, stride=3),
        transposed(normal(1, 9, 5, 3), normal(9, 3, 5, 5), pad=2),
        transposed(normal(1, 5, 3, 5), normal(5, 1, 3, 3), pad=1, groups=5),
        transposed(normal(1, 6, 5, 3), normal(6, 5, 3, 3), pad=2, groups=2, constant=False),
        transposed(normal(1, 3, 5), normal(3, 21, 4), stride=5, constant=False),
        pool(nn.MaxPoolOp, normal(1, 5, 9, 7), 3, 2, 1),
        pool(nn.MaxPoolOp, normal(1, 19, 7, 5), 2, 1, 0),
        pool(nn.AvgPoolOp, normal(2, 3, 7, 9), 3, 1, 1, count_include_pad=False),
        pool(nn.AvgPoolOp, normal(1, 17, 5, 5), 5, 1, 0, count_include_pad=True),
    ]


def byte_cases() -> Iterator[Case]:
    """Convolutions of bytes: the last group of channels is a part of one."""
    for channels, kernel, pad in ((3, 3, 1), (7, 1, 0), (1, 3, 2), (8, 2, 0)):
        x = np.arange(channels * 35).astype(np.uint8).reshape(1, channels, 5, 7)
        w = np.arange(19 * channels * kernel**2).astype(np.int8)
        for constant in (True, False):
            yield conv(x, w.reshape(19, channels, kernel, kernel), pad=pad, constant=constant)


def row_cases() -> Iterator[Case]:
    """Ops that move the elements of rows, or go along them."""
    x = normal(2, 3, 5, 17)
    constant: dict[str, PyValue] = {"mode": "constant", "value": 1.5}
    yield from [
        slices(x, starts=(1, 2, 4, 16), sizes=(1, 3, 2, 6), steps=(1, -1, -2, -3)),
        Case(nn.PadOp, [x], {"low": (0, 1, 2, 3), "high": (1, 0, 2, 5), **constant}),
        Case(nn.ExpandOp, [normal(3, 1, 7)], {"shape": (2, 3, 5, 7)}),
        Case(nn.TileOp, [normal(3, 7)], {"repeats": (2, 3)}),
        Case(nn.GroupNormOp, [x, normal(3), normal(3)], {"groups": 3, "epsilon": 0.1}),
        Case(nn.LrnOp, [x], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
        Case(nn.GatherNdOp, [normal(7, 5, 9), indices(5, 3, 2)], {"batch_dims": 0}),
        Case(nn.GatherOp, [normal(7, 21), indices(21, 35)], {"axis": 1}),
        Case(
            nn.Col2imOp,
            [normal(2, 3, 3, 2, 4, 5)],
            {"image": (7, 9), "strides": (2, 2), "dilations": (1, 2), "starts": (1, 0)},
        ),
    ]
    for perm in ((1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 3, 2)):
        yield Case(nn.TransposeOp, [x], {"perm": perm})


def product_cases() -> Iterator[Case]:
    """Products, with constants and without."""
    yield Case(nn.FcOp, [normal(5, 7), normal(7, 33), normal(33)], {"transpose_w": False}, [1, 2])
    yield Case(nn.FcOp, [normal(3, 9), normal(17, 9), normal(17)], {"transpose_w": True})
    for m, n, k in ((1, 1, 1), (1, 33, 7), (5, 3, 17), (17, 35, 9), (7, 1, 33)):
        for weight in (False, True):
            yield matmul(normal(m, k), normal(k, n), transposed=False, constant=weight)
            yield matmul(normal(m, k), normal(n, k), transposed=True, constant=weight)
    yield matmul(normal(3, 5, 7), normal(3, 7, 9), transposed=False, constant=False)
    for m, n, k in ((1, 1, 3), (5, 3, 18), (17, 35, 9), (7, 17, 32)):
        bytes_of_a = np.arange(m * k).astype(np.uint8).reshape(m, k)
        bytes_of_b = np.arange(k * n).astype(np.int8).reshape(k, n)
        for weight in (False, True):
            yield matmul(bytes_of_a, bytes_of_b, transposed=False, constant=weight)


def axis_cases() -> Iterator[Case]:
    """Return a case of each op along one axis, for each axis."""
    for shape in ((1,), (7,), (33,), (5, 19), (3, 7, 5)):
        y = normal(*shape)
        for axis in range(y.ndim):
            yield Case(nn.SoftmaxOp, [y], {"axis": axis})
            yield Case(nn.ReduceSumOp, [y], {"axes": (axis,), "keepdims": False})
            yield Case(nn.ReduceMaxOp, [y], {"axes": (axis,), "keepdims": True})
            yield Case(nn.GatherOp, [y, indices(shape[axis], 3)], {"axis": axis})
            yield Case(nn.GatherElementsOp, [y, indices(shape[axis], *shape)], {"axis": axis})
            yield Case(nn.ConcatOp, [y, y, y], {"axis": axis})
        yield Case(nn.LayerNormOp, [y, y, y], {"axis": 0, "epsilon": 0.1})
        yield Case(nn.ReduceMeanOp, [y], {"axes": tuple(range(y.ndim)), "keepdims": False})


def element_cases() -> Iterator[Case]:
    """Casts, and what runs on every element."""
    numbers = (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64)
    for start, to in itertools.permutations(numbers, 2):
        for size in (1, 9, 17):  # one more than the lanes
            settings: dict[str, PyValue] = {"to": element_type(to)}
            yield Case(nn.CastOp, [np.arange(size).astype(start)], settings)
    for dtype in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
        for size in (1, 3, 9, 31, 65):
            y = (np.arange(size) % 2).astype(dtype)
            yield Case(nn.EqualOp, [y, y])
            yield Case(nn.WhereOp, [y > 0, y, y])
            yield slices(y, starts=(size - 1,), sizes=(size,), steps=(-1,))


def narrow_cases() -> Iterator[Case]:
    """Elements whose last ones are stored alone, from wider ones."""
    sizes = (1, 9, 17, 33)
    starts = (np.float32, np.float64, np.int32)
    for name, start, size in itertools.product(("bf16", "f16", "u8"), starts, sizes):
        yield Case(nn.CastOp, [np.arange(size).astype(start)], {"to": attribute_of(name)})
    for name, size in itertools.product(("bf16", "f16"), sizes):
        y = converted(np.arange(size), DTYPES[name])
        yield Case(nn.AddOp, [y, y])
        yield Case(nn.CastOp, [y], {"to": attribute_of("u8")})


def main(target: str) -> None:
    """Run all cases; the one that is running is the last line."""
    for case in alternate([*cases()], ["native", *RUNNABLE].index(target)):
        print(case, flush=True)
        case.run(target)
    print("done")


if __name__ == "__main__":
    share()
    main(sys.argv[1])
