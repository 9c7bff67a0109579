"""Sizes that are no numbers yet go through layouts, accesses, tiles and loops."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, MemRefType, f32
from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser

from tessella import targets
from tessella.dialects.layout import NCHW, NHWC, Layout
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import PlaceAttr
from tessella.dialects.sizes import SizeParser, parse_size
from tessella.dialects.tile import ContractOp, KernelOp, Schedule, access, merge
from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.flat import Flat, FlatAccess, flatten, flatten_access
from tessella.dialects.tile.merge import merged
from tessella.driver.stages.stage_file import stage_context
from tessella.lowering.point import StepPosition
from tessella.lowering.statement import Statement
from tessella.lowering.values import BlockEmitter, Pos
from tessella.passes.tile import problem, search
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.tiles import Tiles, split
from tessella.support.conditions import UndecidedSizeError, always, decided
from tessella.support.decisions import (
    are_ordered,
    decided_max,
    decided_min,
    decided_zero,
    differs,
    is_multiple,
    known,
)
from tessella.support.sizes import (
    MOST_FACTORS,
    Size,
    Symbol,
    bounds_of,
    ceil_div,
    expression,
    product,
    round_up,
    value_of,
    with_symbols,
)
from tessella.targets import Target

VALUES = (16, 17, 31, 48, 1000)
N = Symbol("n", 16, 1000).size
M = Symbol("m", 2, 64).size


def at(size: Size, **values: int) -> int:
    return value_of(size, values)


def test_operations() -> None:
    for n in VALUES:
        assert at(ceil_div(N, 16), n=n) == ceil_div(n, 16)
        assert at(round_up(N, 16), n=n) == round_up(n, 16)
        assert at(product([N, 3, N]), n=n) == product([n, 3, n])
    assert known(VALUES[0]) == VALUES[0]
    for number in (known, range, int, float, np.zeros):
        with pytest.raises(UndecidedSizeError, match="a number is needed for the size n"):
            number(N)


@pytest.mark.parametrize("seed", range(200))
def test_random_expressions(seed: int) -> None:
    """An expression has the value of its numbers, within its bounds, and its text is read back."""

    def drawn(rng: random.Random, n: Size, m: Size, depth: int) -> Size:
        if depth == 0:
            return rng.choice([n, m, rng.randint(1, 9)])
        a, b = drawn(rng, n, m, depth - 1), drawn(rng, n, m, depth - 1)
        by = rng.randint(1, 20)
        return rng.choice([lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // by])()

    size = drawn(random.Random(seed), N, M, 3)
    low, high = bounds_of(size)
    for n in VALUES:
        for m in (2, 3, 64):
            expected = drawn(random.Random(seed), n, m, 3)
            assert at(size, n=n, m=m) == expected
            assert decided(low <= expected)
            assert decided(expected <= high)
            assert at(with_symbols(size, {"n": n}), m=m) == expected
    parser = SizeParser(Context(), str(size))
    parser.symbols = {"n": Symbol("n", 16, 1000), "m": Symbol("m", 2, 64)}
    assert parse_size(parser) == size
    assert pickle.loads(pickle.dumps(size)) == size


@pytest.mark.parametrize("inner", [N, (N + 1) // 2, (N // 2 + M) // 3])
def test_a_rounded_size_is_not_smaller(inner: Size) -> None:
    """Also if the size has quotients itself."""
    assert always(24 * inner <= round_up(24 * inner, 64))
    assert always(round_up(inner, 8) < inner + 8)


@pytest.mark.parametrize(
    "dividend, divisor, expected",
    [
        (N * M * 768, N * M, 768),
        (N * M + N, M + 1, N),
        (N * N - M * M, N - M, N + M),
        (64 * N + 128, 64, N + 2),
    ],
    ids=str,
)
def test_exact_division(dividend: Size, divisor: Size, expected: Size) -> None:
    assert dividend // divisor == expected
    assert dividend % divisor == 0


UNDECIDED: Sequence[Callable[[], object]] = (
    lambda: decided(N < 100),
    lambda: N // M,
    lambda: differs(N, 100),
    lambda: differs(N, M),
    lambda: decided_zero(N - 20),
    lambda: decided_max(N, 100),
    lambda: decided_min(N, 100),
    lambda: bool(N < 100),
    lambda: 100 // N,
)


@pytest.mark.parametrize("question", UNDECIDED)
def test_what_some_sizes_would_change(question: Callable[[], object]) -> None:
    with pytest.raises(UndecidedSizeError) as error:
        question()
    assert error.value.symbols <= {"n", "m"}


QUESTIONS: Sequence[Callable[[Size], bool]] = [
    lambda n: decided(n < 0),
    lambda n: decided(n > 0),
    decided_zero,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=["negative", "positive", "zero"])
@pytest.mark.parametrize("factor", [-3, -1, 1, 2, 5])
def test_where_a_decision_changes(question: Callable[[Size], bool], factor: int) -> None:
    """Before the turn it is one, from there on another one."""
    for number in (-62, -61, -60, -7, 0, 3, 59, 60):
        answers = [question(factor * n + number) for n in range(2, 101)]
        turns = [n for n in range(3, 101) if answers[n - 3] != answers[n - 2]]
        if turns:
            with pytest.raises(UndecidedSizeError) as caught:
                question(factor * Symbol("n", 2, 100).size + number)
            assert caught.value.turn == turns[0]


def test_what_holds_for_all_sizes() -> None:
    for holds in (N >= 16, N <= 1000, N // 16 * 16 <= N, round_up(N, 16) < N + 16, N * M > N):
        assert decided(holds)
        assert always(holds)
    assert not always(N < 100)
    assert not decided(N < 16)
    assert differs(N, 1)
    assert not differs(N + 1, 1 + N)
    assert decided_max(N, 3) == N
    assert decided_min(N, 3) == 3
    assert Symbol("k", 4, 4).size == 4


@pytest.mark.parametrize("layout", [NCHW, NHWC, Layout("nchw16c")], ids=str)
@pytest.mark.parametrize("dim", range(4))
def test_memory(layout: Layout, dim: int) -> None:
    """Strides and sizes of a tensor of which one dimension is not known."""

    def shape(n: Size) -> list[Size]:
        return [n if d == dim else extent for d, extent in enumerate((2, 16, 5, 7))]

    for n in VALUES:
        assert at(layout.size(shape(N)), n=n) == layout.size(shape(n))
        symbolic, numbers = layout.strides(shape(N)), layout.strides(shape(n))
        assert [at(stride, n=n) for stride in symbolic] == list(numbers)


def numbers(a: FlatAccess, n: int) -> tuple[Any, ...]:
    strides = {name: at(stride, n=n) for name, stride in a.strides.items()}
    return strides, at(a.offset, n=n), at(a.size, n=n)


def plane(n: Size) -> Flat:
    """Planes of n x n in NCHW, read at y + 1 of rows that are longer by 2."""
    ranges = {"c": 3, "y": n, "x": n}
    forms = access("c", "y", "x")
    accesses = (
        flatten_access(access("c", "y", "x"), (3, n, n), NCHW, ranges),
        flatten_access(forms, (3, n, n), NCHW, ranges),
    )
    indices = tuple(Index(name, extent) for name, extent in ranges.items())
    return Flat(indices, accesses, 1, (), frozenset())


def test_indices_merge() -> None:
    """Two indices merge if one iteration of the outer is a full range of the inner, for all
    sizes."""
    found = merged(plane(N))
    for n in VALUES:
        expected = merged(plane(n))
        assert [i.name for i in found.indices] == [i.name for i in expected.indices] == ["c_y_x"]
        assert [at(i.range, n=n) for i in found.indices] == [3 * n * n]
        for a, b in zip(found.accesses, expected.accesses, strict=True):
            assert numbers(a, n) == numbers(b, n)


@pytest.mark.parametrize("tile", [1, 8, 16])
def test_tiles(tile: int) -> None:
    """A range of at least one tile is one loop, whose last turn lies over the one before it."""
    [tiles] = split(N, tile, (0, N), overlap=True)
    for n in VALUES:
        found = Tiles(tiles.start, tiles.size, at(tiles.stop, n=n))
        assert [found] == list(split(n, tile, (0, n), overlap=True))
    assert tiles.overlap == (tile > 1)


class SymbolEmitter(BlockEmitter):
    """Sizes that depend on symbols become arithmetic on the function's last argument."""

    def index(self, value: Size) -> SSAValue:
        if expression(value) is None:
            return super().index(value)
        argument = self.entry.args[-1]
        return self.linear([(argument, 1)], known(value - N))


def test_loops_of_a_map() -> None:
    """The loop of an elementwise statement goes to what the program passes; its last vector lies
    over the one before it."""
    text = """
    tile.kernel @k(%x: tensor<1000xf32>) -> (tensor<1000xf32>) {
      %r = tile.contract = [i: 1000] (%x[i]) -> [i] {
      ^bb0(%v: f32):
        %y = arith.addf %v, %v : f32
        tile.yield %y : f32
      } : tensor<1000xf32>
      tile.return %r : tensor<1000xf32>
    }"""
    module = Parser(stage_context(), text).parse_module()
    op = next(op for op in module.walk() if isinstance(op, ContractOp))
    flat = replace(flatten(op), indices=(Index("i", N),))
    buffer = MemRefType(f32, [1000])
    block = Block(arg_types=[buffer, buffer, IndexType()])
    emitter = SymbolEmitter(block)
    schedule = Schedule(("i",), (), vector="i", lanes=16)
    buffers = {op.inputs[0]: block.args[0], op.res: block.args[1]}
    Statement(emitter, op, flat, schedule, buffers, StepPosition((Pos(), Pos()))).emit()
    emitter.finish()
    [loop] = [inner for inner in block.ops if isinstance(inner, scf.ForOp)]
    assert loop.ub is block.args[2]
    names = [inner.name for inner in loop.body.block.ops]
    assert names == [
        "affine.apply",
        "arith.minsi",
        "vector.load",
        "arith.addf",
        "vector.store",
        "scf.yield",
    ]


# ** the search **

PRODUCT = """
tile.kernel @k(%a: tensor<1000x64xf32>, %b: tensor<64x48xf32>) -> (tensor<1000x48xf32>)
    attributes {constants = [1]} {
  %r = tile.contract + [m: 1000, n: 48 | k: 64] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<1000x48xf32>
  tile.return %r : tensor<1000x48xf32>
}"""
RELU = """
tile.kernel @k(%a: tensor<3x1000x7xf32>) -> (tensor<7x1000x3xf32>) {
  %r = tile.contract = [i: 7, j: 1000, l: 3] (%a[l, j, i]) -> [i, j, l] {
  ^bb0(%x: f32):
    %y = arith.mulf %x, %x : f32
    tile.yield %y : f32
  } : tensor<7x1000x3xf32>
  tile.return %r : tensor<7x1000x3xf32>
}"""


LARGE = Symbol("n", 1000, 4000).size
"""Whose usual value is 1000."""


def symbolic(extent: Size) -> Size:
    return LARGE if extent == 1000 else extent


def flatten_symbolic(op: ContractOp, places: Mapping[int, PlaceAttr] | None = None) -> Flat:
    """A statement without constraints, with the symbol where it says 1000."""
    indices = tuple(replace(i, range=symbolic(i.range)) for i in op.index_list)
    ranges = {i.name: i.range for i in indices}
    layouts = {i: place.layout for i, place in (places or {}).items()}
    accesses = tuple(
        flatten_access(forms, [symbolic(e) for e in shape_of(value)], layouts.get(i, NCHW), ranges)
        for i, (value, forms) in enumerate(zip(op.tensors, op.access_list, strict=True))
    )
    return Flat(indices, accesses, len(op.inputs), (), frozenset())


@pytest.fixture(params=[PRODUCT, RELU], ids=["product", "relu"])
def statement(request: pytest.FixtureRequest) -> tuple[ContractOp, KernelOp]:
    module = Parser(stage_context(), request.param).parse_module()
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    return next(op for op in kernel.walk() if isinstance(op, ContractOp)), kernel


def without_blocks(choice: Choice, op: ContractOp, kernel: KernelOp, machine: Target) -> Choice:
    """The same tiles, whose loops run as a whole."""
    schedule = replace(choice.schedule, blocks=())
    model = problem.Problem(op, kernel, machine).model(choice.places)
    estimate = replace(choice.estimate, traffic=model.traffic.cycles(schedule))
    return replace(choice, schedule=schedule, estimate=estimate)


@pytest.mark.parametrize("target", ["avx512", "avx2", "neon"])
def test_the_search_estimates_sizes(
    statement: tuple[ContractOp, KernelOp], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbol is searched as its usual value. Only blocks for the caches do not divide it, and its
    rows have ends."""
    machine = targets.get(target)
    monkeypatch.setattr(search, "_CHOICES", {})
    expected = without_blocks(search.best_schedule(*statement, machine), *statement, machine)
    monkeypatch.setattr(search, "_CHOICES", {})
    for module in (problem, merge):
        monkeypatch.setattr(module, "flatten", flatten_symbolic)
    found = search.best_schedule(*statement, machine)
    assert replace(found, schedule=replace(found.schedule, ends=())) == expected


def test_multiples_and_orders() -> None:
    """A relation that holds for some sizes only is undecided."""
    n = Symbol("n", 2, 9).size
    assert [is_multiple(6 * n, of) for of in (3, n, 2 * n, 4, n + 1)] == [True] * 3 + [False] * 2
    assert (is_multiple(12, 3), is_multiple(12, n)) == (True, False)
    assert [are_ordered(n, other) for other in (2, 9, n + 1, 5)] == [True, True, True, False]


def test_sizes_are_not_too_long() -> None:
    """Bounds of longer ones would take seconds."""
    sizes = [Symbol(f"s{i}", 2, 9).size for i in range(MOST_FACTORS + 1)]
    assert bounds_of(product(sizes[1:])) == (2**MOST_FACTORS, 9**MOST_FACTORS)
    with pytest.raises(UndecidedSizeError, match="too many sizes"):
        product(sizes)
    with pytest.raises(UndecidedSizeError, match="too many products"):
        product(size + 1 for size in sizes)


def test_no_size_is_a_multiple_of_0() -> None:
    assert not any(is_multiple(size, 0) for size in (0, 4, N))
