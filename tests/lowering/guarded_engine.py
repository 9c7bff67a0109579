"""Runs whatever the tile engine has its own way for, on memory that ends or begins at a page
that nobody may touch. As with ``guarded``, each target is its own process.

    python -m tests.lowering.guarded_engine avx2
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import numpy as np

import tessella
from tessella import targets
from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp, PyValue
from tessella.runtime.specs import TensorSpec
from tessella.support.conditions import UndecidedSizeError
from tests.codegen.harness import RUNNABLE as EVERY_WIDTH
from tests.frontends.tile import points
from tests.generators.nests import with_windows
from tests.generators.open_sizes import CLOSED, OpenSizes, open_sizes
from tests.generators.schedules import prepare
from tests.generators.tile_statements import statement
from tests.lowering.guarded import Case, Memory, compare, conv, matmul, normal, pool
from tests.native import Array
from tests.sampling import alternate
from tests.shared_kernels import share

STATEMENTS, NESTS = 40, 20
ROW_MAJOR = ("x86/f32/nchw", "x86")


def row_major(case: Case) -> Case:
    """The kernel on row-major tensors, whose lanes are neighbours in the image."""
    return Case(case.kind, case.operands, case.settings, case.constants, ROW_MAJOR)


def windows() -> Iterator[Case]:
    """Convolutions and pooling whose lanes lie side by side, or a few elements apart."""
    weight, depthwise = normal(7, 3, 3, 3), normal(3, 1, 3, 3)
    for width, strides in ((7, (1, 2, 4)), (35, (1, 2, 3))):
        x = normal(1, 3, 5, width)
        for stride in strides:
            yield row_major(conv(x, weight, stride=stride, pad=stride % 3))
            yield row_major(conv(x, depthwise, stride=stride, pad=1, groups=3))
            yield row_major(pool(nn.MaxPoolOp, x, 3, stride, 1))
        yield row_major(conv(x, weight, pad=1, constant=False))
        yield conv(x, depthwise, stride=2, pad=1, groups=3)
        yield row_major(pool(nn.AvgPoolOp, x, 3, 1, 1, count_include_pad=False))
    yield row_major(conv(normal(1, 2, 37), normal(3, 2, 5), stride=2, pad=2))
    yield row_major(conv(normal(1, 2, 3, 5, 19), normal(3, 2, 3, 3, 3), stride=2, pad=1))


def movements() -> Iterator[Case]:
    """Transposes of all ranks, whose squares have edges in both directions; and relayouts."""
    for shape in ((17, 9), (35, 33), (9, 17, 5), (2, 3, 5, 17), (2, 2, 3, 5, 7)):
        orders = list(itertools.permutations(range(len(shape))))
        # of many, some
        for perm in orders[1 :: max(1, len(orders) // 3)]:
            yield Case(nn.TransposeOp, [normal(*shape)], {"perm": perm})
    for dtype in (np.int8, np.int16, np.int64, np.float64):
        array = np.arange(17 * 35).reshape(17, 35).astype(dtype)
        yield Case(nn.TransposeOp, [array], {"perm": (1, 0)})
    for shape in ((1, 17, 5, 7), (2, 33, 3, 3), (1, 3, 7, 9)):
        # on channels last, between an input and a result that are row-major
        yield pool(nn.MaxPoolOp, normal(*shape), 3, 1, 1)
    x = normal(3, 37)
    for step in (2, 3, 4, 5, -1, -2):
        start, size = (0, -(-37 // step)) if step > 0 else (36, -(-37 // -step))
        settings: dict[str, PyValue] = {
            "starts": (0, start),
            "sizes": (3, size),
            "steps": (1, step),
        }
        yield Case(nn.SliceOp, [x], settings)


def products() -> Iterator[Case]:
    """Products of all transposes and batches, with weights and without."""
    shapes = (
        ((5, 7, 9), (5, 9, 17)),
        ((2, 3, 5, 7), (7, 33)),
        ((2, 1, 5, 7), (1, 3, 7, 19)),
        ((19, 67), (67, 35)),
    )
    for (a, b), transposed in itertools.product(shapes, (False, True)):
        shape = (*b[:-2], b[-1], b[-2]) if transposed else b
        constant = (len(a) + transposed) % 2 == 0
        yield matmul(normal(*a), normal(*shape), transposed=transposed, constant=constant)


def reductions() -> Iterator[Case]:
    """Reductions over any axes, of floats and of integers."""
    kinds: tuple[type[NnOp], ...] = (nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMeanOp)
    x = normal(3, 5, 19)
    for count in (1, 2, 3):
        for axes, kind in zip(itertools.combinations(range(3), count), itertools.cycle(kinds)):
            yield Case(kind, [x], {"axes": axes, "keepdims": False})
    for dtype in (np.int8, np.int32, np.int64, np.float64):
        array = np.random.default_rng(0).integers(-3, 4, (7, 35)).astype(dtype)
        for axis in (0, 1):
            yield Case(nn.ReduceMinOp, [array], {"axes": (axis,), "keepdims": False})


@dataclass(frozen=True)
class Text:
    """A program in the Tile language."""

    source: str
    shapes: tuple[tuple[int, ...], ...]

    def run(self, target: str) -> None:
        """Compare with what the program means, on guarded memory."""
        tile = tessella.tile(self.source, target=target)
        arrays = [np.round(2 * normal(*shape)) for shape in self.shapes]
        inputs: dict[str, Array] = dict(zip(tile.inputs, arrays, strict=True))
        wanted = points.run(self.source, *arrays)
        specs = [TensorSpec(a.shape, a.dtype) for a in arrays]
        compare(
            lambda: tile._program(specs).compile(tile._options),
            inputs,
            [wanted[name] for name in tile.outputs],
        )

    def __str__(self) -> str:
        return f"{self.source} {list(self.shapes)}"


TEXTS = (
    Text("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }",
         ((5, 9), (9, 19))),
    Text("function (A[M, K], B[N, K]) -> (C) { C[j, i : N, M] = +(A[i, k] * B[j, k]); }",
         ((17, 9), (7, 9))),
    Text("function (I[N], K[W]) -> (O) { O[x : N] = +(I[x + k - 2] * K[k]); }", ((37,), (5,))),
    Text("function (I[N]) -> (O) { O[x : (N + 1) / 2] = >(I[2*x + k - 1]), k < 3; }", ((37,),)),
    Text("function (I[N]) -> (O) { O[x : N / 3] = +(I[3*x + k]), k < 3; }", ((53,),)),
    Text("function (I[N]) -> (O) { O[i : N] = +(I[k]), i - k < N; }", ((35,),)),
    Text("function (I[N, M]) -> (O) { O[j, i : M, N] = =(I[i, j]); }", ((19, 35),)),
    Text("function (I[N, M]) -> (O) { O[i, j : N, M] = =(I[i, M - 1 - j]); }", ((5, 19),)),
    Text("function (I[N, N]) -> (O) { O[i : N] = +(I[i, i]); }", ((19,) * 2,)),
    Text("function (I[N]) -> (O) { O[2*i : 2*N] = =(I[i]); }", ((19,),)),
    Text("function (I[N]) -> (O) { O[x, y : 9, 17] = +(I[2*y + x + 3*k]), k < 5; }", ((55,),)),
    Text("function (I[N, H, W, C], K[KH, KW, C, D]) -> (O) {"
         " O[n, y, x, d : N, H, W, D] = +(I[n, y + i - 1, x + j - 1, c] * K[i, j, c, d]); }",
         ((1, 5, 7, 3), (3, 3, 3, 17))),
)  # fmt: skip


def _sizes(random: Random) -> OpenSizes:
    """Open sizes for half of the cases."""
    return open_sizes(random) if random.random() < 0.5 else CLOSED


@dataclass(frozen=True)
class Drawn:
    """A random statement under a random schedule."""

    seed: int

    def run(self, target: str) -> None:
        """Compare with what the statement means, on guarded memory."""
        random = Random(self.seed)
        with suppress(UndecidedSizeError):
            drawn = statement(random, _sizes(random))
            prepared = prepare(random, drawn, targets.get(target))
            for memory in (Memory(at_end=True), Memory(at_end=False)):
                if prepared.is_small:
                    prepared.check(memory.copy)
                    memory.check()

    def __str__(self) -> str:
        return f"statement {self.seed}"


@dataclass(frozen=True)
class DrawnNest:
    """Random statements of a step that read neighbours of what others write."""

    seed: int

    def run(self, target: str) -> None:
        """Compare with what the statements mean, on guarded memory."""
        random = Random(self.seed)
        with suppress(UndecidedSizeError):
            sizes = _sizes(random)
            made = with_windows(random, targets.get(target), sizes)
            for memory in (Memory(at_end=True), Memory(at_end=False)):
                if made is not None:
                    made.check_on(memory.copy)
                    memory.check()

    def __str__(self) -> str:
        return f"nest {self.seed}"


def main(target: str) -> None:
    """Run all; what is running is the last line."""
    drawn = [*map(Drawn, range(STATEMENTS)), *map(DrawnNest, range(NESTS))]
    fixed = [*windows(), *movements(), *products(), *reductions(), *TEXTS]
    turn = [t.name for t in EVERY_WIDTH].index(target)
    for case in (*alternate(fixed, turn), *alternate(drawn, turn)):
        print(case, flush=True)
        case.run(target)
    print("done")


if __name__ == "__main__":
    share()
    main(sys.argv[1])
