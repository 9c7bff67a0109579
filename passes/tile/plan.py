"""The access plan: how a schedule reads each operand of a statement and writes the result.

``plan_accesses`` computes it. The search scores the plan, ``check_schedule`` checks it, the
lowering emits it, and ``tessella explain --tiles`` prints it. It depends on the layouts of the
operands, and on the indices of the lanes and rows of the register tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Generic

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, Region, SSAValue

from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import ContractOp, Dot, ExtractOp, IndexOp, Schedule, YieldOp
from tessella.dialects.tile.attributes import N, S_co
from tessella.dialects.tile.flat import Constraint, Flat, FlatAccess, strides_of
from tessella.passes.tile.constraints import Constraints, classify
from tessella.support.conditions import decided
from tessella.support.decisions import at_most
from tessella.support.sizes import Size

MAX_STRIDE = 4
"""The largest stride of lanes that shuffles select from whole vectors.

A statement loads that many times the data it uses.
"""


class Access(Enum):
    """How the lanes of an operand's vector are read, or the result's are written."""

    BROADCAST = "broadcast"
    """All lanes share one element; the result has one."""
    CONTIGUOUS = "contiguous"
    PACKED = "packed"
    """Contiguous, in panels as wide as the register tile."""
    STRIDED = "strided"
    """Lanes are a few elements apart: shuffles select them from whole vectors."""
    TRANSPOSED = "in-register transpose"
    """Contiguous along the rows: square blocks are loaded and transposed in registers."""
    INTERLEAVED = "interleaved"
    """Lanes are written a few elements apart, between other rows' lanes: shuffles merge the vectors
    of all rows into contiguous ones."""
    COMPUTED = "computed"
    """Each lane is at a position that the body computes: elements are accessed one by one."""
    GATHER = "gather"
    """Each lane has its own address. It cannot be lowered: the operand must be packed, or
    another index must be the vector index."""


@dataclass(frozen=True)
class OperandPlan(Generic[S_co]):
    """How one operand is read, or the result is written. Strides are in elements."""

    access: Access
    stride: S_co | int
    """The stride between neighbouring lanes."""
    row_stride: S_co | int
    """The stride between neighbouring rows of the register tile."""
    element: str
    """The name of the element in memory, such as `f32`."""
    bits: int
    """The width of the element in memory, in bits."""
    room: S_co | int
    """The number of contiguous elements in memory from the start of a tile. Vectors that end within
    them need no mask."""
    guards: tuple[Constraint, ...] = ()
    """The constraints enforced by masks that keep this operand inside its tensor."""

    @property
    def by_vector(self) -> bool:
        """True if the vectors of a register tile read different elements."""
        return self.access is not Access.BROADCAST

    @property
    def by_row(self) -> bool:
        """True if the rows of a register tile read different elements."""
        return self.row_stride != 0

    @property
    def is_shared(self) -> bool:
        """True if all rows of a register tile read the same vectors."""
        return self.by_vector and not self.by_row

    @property
    def is_panel(self) -> bool:
        """True if all rows read the same panel."""
        return self.access is Access.PACKED and not self.by_row

    @property
    def is_window(self) -> bool:
        """True if the operand is a window: its vectors also move with the rows, which may then
        share them."""
        return self.by_vector and self.by_row

    def __str__(self) -> str:
        text = f"{self.access.value} {self.element}, stride {self.stride}"
        text += f", row stride {self.row_stride}" if self.by_row else ""
        masks = ", ".join(f"0 <= {c.form} < {c.extent}" for c in self.guards)
        return text + (f", masked by {masks}" if masks else "")


@dataclass(frozen=True)
class ExtractPlan:
    """How the lanes of a `tile.extract` read their elements, or how the lanes of an indexed write
    store theirs."""

    access: Access
    by_row: bool = False
    """True if each row of the register tile computes its lanes' positions."""
    is_shared: bool = False
    """True if all rows read the same elements."""

    def loads(self, rows: int, vectors: int) -> int:
        """Return the number of loads in a register tile of elements that lanes share or that are
        contiguous; 0 if each lane has a load of its own."""
        if self.access not in (Access.CONTIGUOUS, Access.BROADCAST):
            return 0
        each = vectors if self.access is Access.CONTIGUOUS else 1
        return each if self.is_shared else each * rows


@dataclass(frozen=True)
class AccessPlan(Generic[S_co]):
    """The plans of a statement's inputs, its post operands and its result, in this order."""

    operands: tuple[OperandPlan[S_co], ...]
    inputs: int
    extracts: tuple[ExtractPlan, ...]
    """The plans of the `tile.extract` ops of the bodies, and of the target of an indexed write."""
    constraints: Constraints
    """How the loops enforce the constraints."""
    sums_lanes: bool = False
    """True if the vector index is reduced: lanes accumulate separately and are summed at the
    end."""
    runs_over_lanes: bool = False
    """True if lanes run along the running index: each lane then has the aggregate of the values up
    to its own."""
    scatters: bool = False
    """True if the statement is an indexed write."""

    @property
    def adds_lanes(self) -> bool:
        """True if lanes of a vector are aggregated with each other, so that invalid lanes must be
        masked."""
        return self.sums_lanes or self.runs_over_lanes

    @cached_property
    def read(self) -> tuple[OperandPlan[S_co], ...]:
        """The plans of the inputs."""
        return self.operands[: self.inputs]

    @cached_property
    def windows(self) -> tuple[OperandPlan[S_co], ...]:
        """The plans of the inputs that are windows."""
        return tuple(o for o in self.read if o.is_window)

    @cached_property
    def columns(self) -> int:
        """The number of vectors of windows that each row loads: one for each window, and two for a
        strided one."""
        return sum(2 if o.access is Access.STRIDED else 1 for o in self.windows)

    @cached_property
    def unpacked(self) -> tuple[int, ...]:
        """The numbers of the inputs that are not packed in panels."""
        return tuple(i for i, o in enumerate(self.read) if o.access is not Access.PACKED)

    @cached_property
    def shared(self) -> int:
        """The number of inputs and extracts that have the same vectors in all rows."""
        extracts = (x for x in self.extracts if x.access is Access.CONTIGUOUS)
        return sum(x.is_shared for x in (*self.read, *extracts))

    @property
    def result(self) -> OperandPlan[S_co]:
        return self.operands[-1]

    @property
    def has_transposes(self) -> bool:
        return any(o.access is Access.TRANSPOSED for o in self.operands)

    @property
    def interleaves(self) -> bool:
        """True if shuffles merge the vectors of all rows into contiguous ones, which are stored."""
        return self.result.access is Access.INTERLEAVED

    @property
    def computed(self) -> list[ExtractPlan]:
        """The plans of the extracts whose lanes read at positions that the bodies compute."""
        return [x for x in self.extracts if x.access is Access.COMPUTED]

    @property
    def gathers_extracts(self) -> bool:
        """True if an extract, or an indexed write, cannot be lowered because each of its lanes
        would need its own address."""
        return any(x.access is Access.GATHER for x in self.extracts)

    def gathered(self) -> list[int]:
        """Return the numbers of the operands that cannot be lowered because each of their lanes
        would need its own address."""
        return [i for i, o in enumerate(self.operands[:-1]) if o.access is Access.GATHER]

    def misfit(self, s: Schedule) -> str | None:
        """Return the requirement that a schedule of this plan violates; None if it can be
        lowered."""
        if s.vector is None:
            return None
        stuck = self.gathered() or self.gathers_extracts or self.result.access is Access.GATHER
        if stuck:
            return "lanes that lie side by side"
        if self.scatters and self.constraints.masked and self._masks_lanes(s.vector):
            return "lanes that count alike in an indexed write"
        if self.result.by_vector == self.sums_lanes or not self.reads_vectors:
            return "lanes that are written or added up"
        if self.has_transposes and not (s.row_tile <= s.lanes and s.vectors == 1):
            return "in-register transposes of at most as many rows as lanes, by one vector"
        blocked = any(name == s.rows for name, _ in s.blocks)
        if self.interleaves and (s.row_tile != self.result.stride or blocked):
            return f"tiles of all {self.result.stride} rows whose lanes are interleaved"
        return None

    def _masks_lanes(self, vector: str) -> bool:
        return any(c.form.coefficient(vector) for c in self.constraints.masked)

    @property
    def reads_vectors(self) -> bool:
        """True if a reduction over lanes reads contiguous vectors of at least one operand."""
        return not self.sums_lanes or any(o.by_vector for o in self.read)

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, one line for each operand and constraint."""
        for number, operand in enumerate(self.operands[:-1]):
            yield f"operand {number}: {operand}"
        yield f"result: {self.result}"
        for kind, group in (
            ("loops over the rows that are inside", self.constraints.rows),
            ("loop bound", self.constraints.bounds),
            ("mask in boundary tiles", self.constraints.lanes),
            ("mask", self.constraints.masks),
            ("condition of stores", self.constraints.stores),
        ):
            yield from (f"constraint 0 <= {c.form} < {c.extent}: {kind}" for c in group)


def plan_accesses(
    op: ContractOp, flat: Flat[N], vector: str | None, rows: str | None, dot: Dot | None = None
) -> AccessPlan[N]:
    """Return the plan of a statement for a vector index, an index of rows, and a dot instruction.

    Without a vector index, each operand is read element by element. ``flat`` has the layouts of the
    operands. Raises InvalidModelError for a result that can leave its tensor along the lanes.
    """
    constraints = classify(flat, Schedule((), (), vector, rows=rows))
    operands = tuple(
        _operand(op, flat, i, value, vector, rows, constraints, dot if i < flat.inputs else None)
        for i, value in enumerate(op.tensors)
    )
    extracts = tuple(_extracts(op, flat, vector, rows)) if vector is not None else ()
    runs = vector is not None and vector == flat.running
    sums = vector in flat.reduced and not runs
    writes = op.is_scatter
    return AccessPlan(operands, flat.inputs, extracts, constraints, sums, runs, writes)


def multiplies_rows(
    op: ContractOp, flat: Flat, dot: Dot, vector: str | None, rows: str | None
) -> bool:
    """Return whether an instruction can multiply groups of several rows by groups of lanes.

    One operand moves with the rows and one with the lanes, in the instruction's operand order; no
    point is masked, and sums are stored once.
    """
    if vector is None or rows is None or op.is_scatter or op.running_index is not None:
        return False
    plan = plan_accesses(op, flat, vector, rows, dot)
    by_row = sorted(plan.read, key=lambda o: o.by_vector)
    moves = [(o.by_row, o.by_vector) for o in by_row]
    return (
        moves == [(True, False), (False, True)]
        and tuple(o.element for o in by_row) in dot.row.operands
        and not plan.constraints.masked
    )


def streams(op: ContractOp, flat: Flat, vector: str | None) -> list[int]:
    """Return the inputs that are read vector by vector, each element once."""
    if vector is None or flat.constraints:
        return []
    plans = plan_accesses(op, flat, vector, None).read
    return [
        i
        for i, (plan, a) in enumerate(zip(plans, flat.accesses, strict=False))
        if plan.access is Access.CONTIGUOUS
        and all(a.stride(index.name) for index in flat.indices if index.range != 1)
    ]


def _operand(
    op: ContractOp,
    flat: Flat[N],
    number: int,
    value: SSAValue,
    vector: str | None,
    rows: str | None,
    constraints: Constraints,
    dot: Dot | None,
) -> OperandPlan[N]:
    a = flat.accesses[number]
    return OperandPlan(
        access=_access(op, flat, number, value, vector, rows)
        if dot is None or vector is None or dot.row.k == 1 or a.lane_stride(dot.index) == 0
        else _grouped(a, vector, dot),
        stride=a.lane_stride(vector) if vector is not None else 0,
        row_stride=a.stride(rows) if rows is not None else 0,
        element=a.element.name,
        bits=a.element.bits,
        room=a.room.get(vector or "", 0),
        guards=tuple(c for c in constraints.masked if number in c.operands),
    )


def _access(
    op: ContractOp, flat: Flat, number: int, value: SSAValue, vector: str | None, rows: str | None
) -> Access:
    a = flat.accesses[number]
    stride = a.lane_stride(vector) if vector is not None else 0
    if stride == 0 or vector is None:
        return Access.BROADCAST
    if stride == 1:
        return Access.PACKED if vector in a.lanes else Access.CONTIGUOUS
    if a is flat.out and _is_interleaved(op, flat, rows, stride):
        return Access.INTERLEAVED
    sums = vector in flat.reduced and vector != flat.running
    if a is flat.out or sums or tensor_type(value).element_type == i1:
        return Access.GATHER
    if number < flat.inputs and _is_strided(flat, number, vector, stride):
        return Access.STRIDED
    return Access.TRANSPOSED if _is_transposed(op, flat, a, rows) else Access.GATHER


def _grouped(a: FlatAccess, vector: str, dot: Dot) -> Access:
    """Return how the groups of a dot instruction's operand are read.

    The values of a group are contiguous, as are the groups of lanes.
    """
    if a.lane_stride(dot.index) != 1:
        return Access.GATHER
    stride = a.lane_stride(vector)
    if stride == 0:
        return Access.BROADCAST
    if stride != dot.row.k:
        return Access.GATHER
    return Access.PACKED if vector in a.lanes else Access.CONTIGUOUS


def _is_strided(flat: Flat, number: int, vector: str, stride: Size) -> bool:
    """Return whether an operand can be read by loading contiguous vectors and selecting every
    ``stride``-th element. The elements in between are also loaded, so constraints must hold for
    them too."""
    return (
        at_most(stride, MAX_STRIDE)
        and decided(stride > 1)
        and all(
            c.form.coefficient(vector) in (0, stride)
            for c in flat.constraints
            if number in c.operands
        )
    )


def _is_transposed(op: ContractOp, flat: Flat, a: FlatAccess, rows: str | None) -> bool:
    return rows is not None and op.is_map and not flat.constraints and a.stride(rows) == 1


def _is_interleaved(op: ContractOp, flat: Flat, rows: str | None, stride: Size) -> bool:
    """Return whether the rows of a register tile fill the elements between the lanes of an
    elementwise result, so that their vectors can be interleaved and stored together."""
    if rows is None or not op.is_map or not isinstance(stride, int):
        return False
    bounded = any(
        c.form.coefficient(rows) for c in flat.constraints if c.is_of_results(flat.inputs)
    )
    dense = flat.out.stride(rows) == 1 and flat.ranges[rows] == stride
    stored = tensor_type(op.res).element_type
    return 1 < stride <= MAX_STRIDE and dense and not bounded and stored != i1


# ** extracts **


def _extracts(op: ContractOp, flat: Flat, vector: str, rows: str | None) -> Iterator[ExtractPlan]:
    """Yield the plans of the `tile.extract` ops of the bodies, and of the elements that an indexed
    write stores."""
    regions = [(region, list(region.walk())) for region in (op.combine, op.post)]
    if not op.is_scatter and not any(isinstance(x, ExtractOp) for _, ops in regions for x in ops):
        return
    varying = _varying(op, flat, vector)
    by_row = _varying(op, flat, rows) if rows is not None else set[SSAValue]()
    sums = vector in flat.reduced and vector != flat.running
    alike = vector in flat.free and not op.is_scatter and not flat.constraints  # no lane is masked
    for region, ops in regions:
        for inner in ops:
            places = {c for c in _coordinates(inner) if c in varying}
            if isinstance(inner, ExtractOp):
                apart = sums and region is op.combine
                access = Access.GATHER if apart else _extract(inner, varying)
                computed = access is Access.GATHER and alike
                access = Access.COMPUTED if computed else access
                shared = by_row.isdisjoint(inner.coordinates)
                yield ExtractPlan(access, not places.isdisjoint(by_row), shared)
            elif isinstance(inner, YieldOp):
                yield ExtractPlan(Access.GATHER if places else Access.BROADCAST)


def _coordinates(op: Operation) -> Sequence[SSAValue]:
    return op.coordinates if isinstance(op, ExtractOp | YieldOp) else ()


def extracts_along(op: ContractOp, flat: Flat, index: str) -> set[ExtractOp]:
    """Return the `tile.extract` ops that read different elements for the values of an index."""
    found = [x for x in op.combine.walk() if isinstance(x, ExtractOp)]
    varying = _varying(op, flat, index) if found else set[SSAValue]()
    return {x for x in found if not varying.isdisjoint(x.coordinates)}


def _varying(op: ContractOp, flat: Flat, index: str) -> set[SSAValue]:
    """Return the values, in the bodies of a statement, that change along ``index``."""
    found: set[SSAValue] = set()
    sums = index in flat.reduced and index != flat.running
    if op.post_block is not None and not sums:
        found.add(op.post_block.args[0])
    inputs, posts = flat.accesses[: flat.inputs], flat.accesses[flat.inputs : -1]
    for region, accesses in ((op.combine, inputs), (op.post, posts)):
        if region.blocks:
            args = region.block.args[len(region.block.args) - len(accesses) :]
            moving = (a.lane_stride(index) != 0 for a in accesses)
            found |= {arg for arg, moves in zip(args, moving, strict=True) if moves}
            _follow(region, index, found)
    return found


def _follow(region: Region, index: str, varying: set[SSAValue]) -> None:
    for inner in region.block.ops:
        if isinstance(inner, IndexOp):
            varying |= {inner.res} if inner.index.data == index else set()
        elif any(v in varying for v in inner.operands):
            varying |= set(inner.results)


def _extract(op: ExtractOp, varying: set[SSAValue]) -> Access:
    moving = [i for i, c in enumerate(op.coordinates) if c in varying]
    if not moving:
        return Access.BROADCAST
    (last, *others) = moving[::-1]
    index = isinstance(op.coordinates[last].owner, IndexOp)
    side_by_side = not others and index and strides_of(op.source)[last] == 1
    return Access.CONTIGUOUS if side_by_side else Access.GATHER
