"""Random valid schedules of statements, and their kernels run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tessella.codegen.emit import emit
from tessella.dialects.elements import element_of
from tessella.dialects.graph import CompileContext
from tessella.dialects.layout import pack
from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import ContractOp, KernelOp, Schedule
from tessella.dialects.tile.flat import Flat, flatten, layout_of
from tessella.dialects.tile.merge import merge_indices, with_places
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.tile.packing import packed_places
from tessella.passes.tile.parallel import is_divisible, tile_of
from tessella.passes.tile.plan import Access, plan_accesses
from tessella.passes.tile.search import best_schedule
from tessella.passes.tile.space import MAX_ROWS, VECTORS, can_go_on, element_bits
from tessella.passes.tile.tiles import ends_of
from tessella.passes.tile.vectors import interleaving_rows, reduces, transposing_rows, vectorises
from tessella.passes.tile_schedule import set_schedule
from tessella.support.decisions import known
from tessella.support.sizes import bounds_of, estimated
from tessella.targets import Target
from tests.codegen.harness import call_text
from tests.generators.choices import Choices
from tests.generators.open_sizes import Values, is_open, least
from tests.generators.tile_statements import Statement
from tests.lowering import reference
from tests.native import Array

UNROLLS = (1, 1, 1, 2, 3, 4, 16, 64)
MOST_ACCUMULATORS = 24
MOST_OPS = 5000
"""Of a kernel's loops: LLVM takes about a second for as many."""
SPARE = 20
"""How many more values than it always has an open index may have in a tile."""
FENCE = 64
"""Elements beside an array that nobody may write to, and whose values nobody may use."""


@dataclass(frozen=True)
class RegisterTile:
    """Rows of one free index by vectors of another."""

    rows: str | None = None
    row_tile: int = 1
    vectors: int = 1


@dataclass(frozen=True)
class Plan:
    """A schedule, and the places that it wants for operands by number."""

    schedule: Schedule
    places: Mapping[int, PlaceAttr]


# ** drawing **


class Planner(Choices):
    """Draws schedules of one statement."""

    def __init__(self, random: Random, op: ContractOp, kernel: KernelOp, target: Target) -> None:
        super().__init__(random)
        self.op = op
        self.kernel = kernel
        if self.coin():
            merge_indices(op)
        self.flat = flatten(op)
        self.target = target
        self.lanes = target.lanes(element_bits(op))

    def draw(self) -> Plan:
        """A valid schedule: the vector index is one that could be chosen, all else is as it comes.
        Or the one that is chosen."""
        if self.chance(20):
            choice = best_schedule(self.op, self.kernel, self.target)
            return Plan(choice.schedule, choice.places)
        vector = self.one_of(*self.lane_indices() * 5, None)
        if vector is None:
            return self.scalar()
        tile = self.tile(vector)
        places: Mapping[int, PlaceAttr] = {}
        if vector in self.flat.free:
            places = packed_places(
                self.op, self.kernel, self.flat, vector, tile.rows, tile.vectors * self.lanes
            )
        flat = with_places(self.op, places)
        if not {vector, tile.rows} - {None} <= set(flat.ranges):
            return self.scalar()
        return Plan(self.finish(flat, vector, tile), places)

    def scalar(self) -> Plan:
        """A schedule without vectors."""
        return Plan(self.finish(self.flat, None, self.tile(None)), {})

    def lane_indices(self) -> list[str]:
        """The indices that can run over lanes, by the predicates of ``passes/tile/vectors.py``."""
        flat, ranges, plain = self.flat, self.flat.ranges, self.flat.with_sizes(estimated)
        closed = (n for n in flat.free if isinstance(flat.out.lane_stride(n), int))
        free = [n for n in closed if vectorises(self.op, self.kernel, plain, n)]
        reduced = [n for n in flat.reduced if reduces(self.op, plain, n)]
        return [n for n in (*free, *reduced) if bounds_of(ranges[n])[1] > 1]

    def tile(self, vector: str | None) -> RegisterTile:
        """A register tile."""
        plan = plan_accesses(self.op, self.flat, vector, None)
        if vector is not None and plan.result.access is Access.GATHER:
            rows = interleaving_rows(self.op, self.flat.with_sizes(estimated), vector)
            assert rows is not None
            return RegisterTile(rows, known(self.flat.ranges[rows]), self.between(1, 2))
        if vector is not None and self.op.is_map and plan.gathered():
            rows = transposing_rows(self.op, self.flat.with_sizes(estimated), vector)
            assert rows is not None
            return RegisterTile(rows, self.between(1, min(self.lanes, self.most(rows))), 1)
        vectors = self.one_of(*self.counts(vector)) if vector is not None else 1
        names = [n for n in self.flat.free if n != vector and self.most(n) > 1]
        edges = [n for n in names if n in self.flat.pinned]
        rows = self.one_of(None, *names, *names, *edges * 3)
        if rows is None:
            return RegisterTile(None, 1, vectors)
        most = min(MAX_ROWS, self.most(rows), max(1, MOST_ACCUMULATORS // vectors))
        return RegisterTile(rows, self.between(1, most), vectors)

    def most(self, name: str) -> int:
        """Return the maximum number of values of an index in a tile. It may exceed the minimum
        range of a symbolic index."""
        range_ = self.flat.ranges[name]
        return range_ if isinstance(range_, int) else least(range_) + SPARE

    def counts(self, vector: str) -> list[int]:
        """Return the possible numbers of vectors in a tile: vectors of reduced indices are full."""
        full, rest = divmod(self.most(vector), self.lanes)
        most = full + (rest > 0 and vector in self.flat.free)
        return [v for v in VECTORS if v <= max(1, most)]

    def finish(self, flat: Flat, vector: str | None, tile: RegisterTile) -> Schedule:
        """A schedule with this vector index and tile."""
        lanes = self.lanes if vector is not None else 1
        order, reduction = (self.random.sample(n, len(n)) for n in (flat.free, flat.reduced))
        if flat.running is not None:
            reduction = [flat.running, *(name for name in reduction if name != flat.running)]
            if can_go_on(self.op) and vector != flat.running and self.coin():
                order.insert(self.between(0, len(order)), reduction.pop(0))
        unroll, blocks = self.one_of(*UNROLLS), self.blocks(flat, vector, lanes * tile.vectors)
        if plan_accesses(self.op, flat, vector, tile.rows).interleaves:
            blocks = tuple(each for each in blocks if each[0] != tile.rows)
        drawn = Schedule(
            tuple(order), tuple(reduction), vector, lanes, tile.vectors, tile.rows, tile.row_tile,
            unroll, blocks, self.partial(flat, vector, lanes * tile.vectors),
            vector is not None and self.one_of(True, False),
            ends=() if tile.rows in dict(blocks) else self.ends(flat, tile),
        )  # fmt: skip
        return replace(drawn, parallel=self.parallel(flat, drawn))

    def ends(self, flat: Flat, tile: RegisterTile) -> tuple[int, ...]:
        """The rows of the last tile, where their number is open."""
        range_ = 1 if tile.rows is None else flat.ranges[tile.rows]
        if not is_open(range_) or range_ % tile.row_tile == 0:
            return ()
        if least(range_) < tile.row_tile or self.coin():
            return ends_of(range_, tile.row_tile)
        rows = range(1, tile.row_tile)
        return tuple(sorted(self.random.sample(rows, self.between(0, len(rows))), reverse=True))

    def parallel(self, flat: Flat, s: Schedule) -> tuple[str, int] | None:
        """An index that is divided between threads."""
        names = [n for n in flat.free if is_divisible(self.op, flat, s, n)]
        if not names or self.op.at_list or self.chance(70):
            return None
        name = self.one_of(*names)
        return name, tile_of(s, name) * self.between(1, 3)

    def partial(self, flat: Flat, vector: str | None, width: int) -> tuple[str, int] | None:
        """Partial sums over a reduced index; over all of one that keeps its name."""
        if self.op.aggregation.data != "+" or not flat.reduced or flat.running or self.coin():
            return None
        name = self.one_of(*flat.reduced)
        step = width if name == vector else 1
        steps = -(-least(flat.ranges[name]) // step)
        if name in flat.pinned and is_open(flat.ranges[name]):
            return None
        return name, step * (steps if name in flat.pinned else self.between(1, steps))

    def blocks(self, flat: Flat, vector: str | None, width: int) -> tuple[tuple[str, int], ...]:
        """Blocks of indices that keep no name; of the vector index, whole tiles."""
        found: list[tuple[str, int]] = []
        for name in flat.free:
            if name not in flat.pinned and self.chance(25) and len(found) < 2:
                step, range_ = width if name == vector else 1, flat.ranges[name]
                whole = least(range_) // step
                most = -(-range_ // step) if isinstance(range_, int) else whole
                if most:
                    found.append((name, step * self.between(1, most)))
        return tuple(found)


# ** running **

Place = Callable[[Array], Array]
"""Copies an array to memory of a kind."""


@dataclass(frozen=True)
class Prepared:
    """A statement with its schedule, lowered for a target."""

    statement: Statement
    target: Target
    module: ModuleOp
    """Its kernel."""
    loops: ModuleOp
    threads: int
    """That run it in turn."""

    @property
    def is_small(self) -> bool:
        """True if LLVM does not take seconds for the code."""
        return sum(1 for _ in self.loops.walk()) <= MOST_OPS

    def check(self, place: Place) -> None:
        """Assert that it gives what it means for all sizes, where all arguments and the result are
        in such memory."""
        for values in self.statement.sizes.runs:
            statement = self.statement.at(values)
            found = self._run(place, statement, values)
            message = f"{values} {self.threads} threads"
            np.testing.assert_array_equal(found, _wanted(statement), message)

    def _run(self, place: Place, statement: Statement, values: Values) -> Array:
        kernel, op = _parts(self.module)
        layouts = [layout_of(v) for v in (*kernel.body.block.args, op.res)]
        before = statement.before
        arrays = [*statement.arrays.values(), before]
        read = [element_of(v.type).dtype for v in (*kernel.body.block.args, op.res)]
        packed = map(pack, arrays, layouts)
        memory = [place(a.astype(to, copy=False)) for a, to in zip(packed, read, strict=True)]
        text, sizes = emit(self.loops, self.target)["k"], values.values()
        turns = [(thread, self.threads) for thread in reversed(range(self.threads))]
        context = call_text(text, self.target, *memory, sizes=sizes, turns=turns)
        assert not context.any(), "a check failed"
        result = np.empty_like(before)
        order = pack(np.arange(before.size).reshape(before.shape), layouts[-1])
        result.reshape(-1)[order] = memory[-1]
        return result


def prepare(random: Random, statement: Statement, target: Target) -> Prepared:
    """The statement under a random schedule."""
    module = statement.parse()
    kernel, op = _parts(module)
    plan = Planner(random, op, kernel, target).draw()
    set_schedule(op, plan.schedule, plan.places, target.arch)
    threads = 1 if plan.schedule.parallel is None else random.randint(1, 4)
    return scheduled(statement, module, target, threads)


def scheduled(statement: Statement, module: ModuleOp, target: Target, threads: int = 1) -> Prepared:
    """The statement with the schedule that it has in a module."""
    PackOperandsPass().apply(CompileContext(), module)
    loops = module.clone()
    ConvertTileToLoopsPass().apply(CompileContext(), loops)
    loops.verify()
    return Prepared(statement, target, module, loops, threads)


def _wanted(statement: Statement) -> Array:
    """Return the expected result of a statement."""
    kernel, op = _parts(statement.parse())
    arguments: list[SSAValue] = list(kernel.body.block.args)
    arrays = dict(zip(arguments, statement.arrays.values(), strict=True))
    return reference.run(op, arrays, statement.before)


def _parts(module: ModuleOp) -> tuple[KernelOp, ContractOp]:
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    return kernel, next(op for op in module.walk() if isinstance(op, ContractOp))


_SIGNALING = {4: np.uint32(0x7FA5A5A5), 8: np.uint64(0x7FF4A5A5A5A5A5A5)}


class Fences:
    """Memory between fences, whose values are such that using them shows."""

    def __init__(self) -> None:
        self._wholes: list[Array] = []

    def place(self, array: Array) -> Array:
        """A copy."""
        whole = np.full(array.size + 2 * FENCE, self._poison(array), array.dtype)
        self._wholes.append(whole)
        inner = whole[FENCE : FENCE + array.size]
        inner[...] = array
        return inner

    @staticmethod
    def _poison(array: Array) -> Any:
        """Return a NaN that no operation on floats yields."""
        found = _SIGNALING.get(array.dtype.itemsize) if array.dtype.kind == "f" else None
        return np.iinfo(array.dtype).max - 1 if found is None else found.view(array.dtype)

    def check(self) -> None:
        """Assert that nothing was written to a fence."""
        for whole in self._wholes:
            for fence in (whole[:FENCE], whole[-FENCE:]):
                expected = np.full(FENCE, self._poison(whole), whole.dtype)
                found, wanted = (each.view(np.uint8) for each in (fence, expected))
                np.testing.assert_array_equal(found, wanted, "written beside an array")
