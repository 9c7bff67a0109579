"""The stride table of a statement, the input of the tile-size search.

For the convolution ``O[n, x, y, co] = +(D[n, x + i - 1, y + j - 1, ci] * K[i, j, co, ci])``:

             Range         O         D         K
      ci        64         0         1         1
      co        64         1         0        64
       i         3         0     14336     12288
       j         3         0        64      4096
       n        32   3211264   3211264         0
       x       224     14336     14336         0
       y       224        64        64         0
     off                   0    -14400         0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.traits import ConstantLike, IsTerminator

from tessella.dialects.layout import ANY_LAYOUT
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import ContractOp, ExtractOp
from tessella.dialects.tile.flat import FlatAccess, flatten, layout_of
from tessella.support.sizes import Expr, estimated

NAME_WIDTH = 8
"""The width of the column with the names of indices, in characters."""
MAX_POINTS = 1 << 63
"""The number of points from which a statement is rejected, as counts of points are 64-bit
integers."""
VECTOR_ELEMENT_BYTES = 4
"""The size of the widest elements that are combined to vectors."""


@dataclass(frozen=True)
class Column:
    """A tensor's address as a function of the table's indices: ``offset + sum(stride * index)``.

    Strides, offset and size are in steps of ``lanes`` elements.
    """

    tensor: str
    strides: tuple[int, ...]
    """The stride along each index, in the order of the table's indices."""
    offset: int
    size: int
    """The size of the tensor in memory, in steps."""
    element_bytes: int
    lanes: int = 1
    """The number of elements that are accessed together, as one vector."""

    @property
    def step_bytes(self) -> int:
        """Bytes of one step."""
        return self.element_bytes * self.lanes


@dataclass(frozen=True)
class StrideTable:
    """The strides of a statement's tensors along its indices, by the names of the indices. Indices
    of only one value are left out."""

    names: tuple[str, ...]
    ranges: tuple[int, ...]
    """The number of steps of each index."""
    lanes: tuple[int, ...]
    """The number of values of each index in one step: 1 unless the index runs over vectors."""
    out: Column
    inputs: tuple[Column, ...]
    post_inputs: tuple[Column, ...]
    point_ops: int
    """The number of operations at each point, those of the post body included (see the function
    ``point_ops``)."""
    constrained: bool
    """True if constraints exclude some points."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.out, *self.inputs, *self.post_inputs)

    @property
    def free(self) -> tuple[int, ...]:
        """The positions in the table of the indices along which the output has a stride."""
        return tuple(i for i, stride in enumerate(self.out.strides) if stride)

    def __str__(self) -> str:
        shown = (self.out, *self.inputs)
        rows = [
            [name, extent, *(c.strides[i] for c in shown)]
            for i, (name, extent) in enumerate(zip(self.names, self.ranges, strict=True))
        ]
        rows.append(["off", "", *(c.offset for c in shown)])
        if any(c.lanes > 1 for c in shown):
            rows.append(["vec", "", *(c.lanes for c in shown)])
        return text_table(["", "Range", *(c.tensor for c in shown)], rows, NAME_WIDTH)


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]], name_width: int) -> str:
    """Return rows of right-aligned cells: the first at least ``name_width`` columns wide,
    others 8."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    width = max(name_width, *(len(line[0]) for line in lines))
    return "\n".join(
        "  ".join([line[0].rjust(width), *(cell.rjust(8) for cell in line[1:])]) for line in lines
    )


def obstacle(op: ContractOp) -> str | None:
    """Return why a statement has no stride table, as a sentence; None if it has one."""
    if any(isinstance(inner, ExtractOp) for r in (op.combine, op.post) for inner in r.walk()):
        return "it reads elements at computed coordinates"
    points = prod(index.range for index in op.index_list)
    if isinstance(points, Expr):
        return f"how many points it has, {points}, depends on symbols"
    if points == 0:
        return "it has no points"
    return table_obstacle(op)


def table_obstacle(op: ContractOp) -> str | None:
    """Return why there is no stride table of the tensors that a statement reads by accesses, for
    the usual values of symbols, as a sentence; None if there is one."""
    points = estimated(prod(index.range for index in op.index_list))
    if points >= MAX_POINTS:
        return f"it has {points} points, not less than 2^63"
    reasons = map(_tensor_obstacle, _tensor_names(op), op.tensors)
    return next((reason for reason in reasons if reason is not None), None)


def _tensor_obstacle(name: str, value: SSAValue) -> str | None:
    type = tensor_type(value)
    layout = layout_of(value)
    if not isinstance(type.element_type, FixedBitwidthType):
        return f"the elements of {name}, {type.element_type}, have no size in bytes"
    if layout == ANY_LAYOUT:
        return f"{name} has no layout yet"
    if any(piece.mod or piece.div > 1 for piece in layout.order(len(shape_of(type)))):
        return f"the layout of {name} splits an index, which has two strides then"
    return None


def stride_table(op: ContractOp) -> StrideTable:
    """Return the table of a statement without an obstacle, for the usual values of symbols."""
    flat = flatten(op).with_sizes(estimated)
    ranges = {name: flat.ranges[name] for name in sorted(flat.ranges) if flat.ranges[name] > 1}
    columns = [
        _column(name, tensor_type(value).element_type, a, tuple(ranges))
        for name, value, a in zip(_tensor_names(op), op.tensors, flat.accesses, strict=True)
    ]
    return StrideTable(
        names=tuple(ranges),
        ranges=tuple(ranges.values()),
        lanes=(1,) * len(ranges),
        out=columns[-1],
        inputs=tuple(columns[: flat.inputs]),
        post_inputs=tuple(columns[flat.inputs : -1]),
        point_ops=point_ops(op),
        constrained=bool(flat.constraints),
    )


def _column(name: str, element: Attribute, a: FlatAccess[int], indices: Sequence[str]) -> Column:
    assert isinstance(element, FixedBitwidthType)
    return Column(name, tuple(map(a.stride, indices)), a.offset, a.size, element.size)


def _tensor_names(op: ContractOp) -> list[str]:
    """Return the names of the tensors in the text of the IR, or `in0`, `in1`, .. and `out` for
    tensors without names."""
    numbered = [f"in{i}" for i in range(len(op.inputs) + len(op.post_inputs))]
    return [
        value.name_hint or name for value, name in zip(op.tensors, [*numbered, "out"], strict=True)
    ]


def point_ops(op: ContractOp) -> int:
    """Return the operations at each point.

    They are those of the combine body (at least one), one to aggregate, and those of the post body,
    which PlaidML also charges to every point. Constants do not count.
    """
    return max(1, _count(op.combine)) + (not op.is_map) + _count(op.post)


def _count(body: Region) -> int:
    return sum(
        not (inner.has_trait(ConstantLike) or inner.has_trait(IsTerminator))
        for block in body.blocks
        for inner in block.ops
    )


# ** vectors **


def vectorize(table: StrideTable, lanes: int) -> StrideTable:
    """Return the table in units of vectors instead of elements: vectors of up to ``lanes``
    elements, as wide as all tensors allow.

    An index along which the output has stride 1 then counts vectors. The strides of the other
    indices, and all offsets and sizes, must be multiples of a vector.
    """
    if table.constrained or any(c.element_bytes > VECTOR_ELEMENT_BYTES for c in table.columns):
        return table
    unit = [i for i, stride in enumerate(table.out.strides) if stride == 1]
    while unit and lanes > 1:
        if all(_divides(lanes, table, c, unit) for c in table.columns):
            return _in_steps(table, unit, lanes)
        lanes //= 2
    return table


def _divides(lanes: int, table: StrideTable, column: Column, unit: Sequence[int]) -> bool:
    moving = [i for i in unit if column.strides[i]]
    others = [s for i, s in enumerate(column.strides) if i not in unit]
    return (
        column.offset % lanes == 0
        and column.size % lanes == 0
        and all(column.strides[i] == 1 and table.ranges[i] % lanes == 0 for i in moving)
        and (not moving or all(stride % lanes == 0 for stride in others))
    )


def _in_steps(table: StrideTable, unit: Sequence[int], lanes: int) -> StrideTable:
    def column(c: Column) -> Column:
        if not any(c.strides[i] for i in unit):
            return c
        strides = tuple(s if i in unit else s // lanes for i, s in enumerate(c.strides))
        return replace(
            c, strides=strides, offset=c.offset // lanes, size=c.size // lanes, lanes=lanes
        )

    return replace(
        table,
        ranges=tuple(r // lanes if i in unit else r for i, r in enumerate(table.ranges)),
        lanes=tuple(lanes if i in unit else 1 for i in range(len(table.names))),
        out=column(table.out),
        inputs=tuple(map(column, table.inputs)),
        post_inputs=tuple(map(column, table.post_inputs)),
    )
