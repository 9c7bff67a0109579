"""The layouts and element types in which a schedule requires its operands (a place is a device, an
element type and a layout)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects.layout import ANY_LAYOUT, Layout, Piece
from tessella.dialects.place import PlaceAttr, place_of
from tessella.dialects.tile import ContractOp, Dot, KernelOp
from tessella.dialects.tile.flat import Flat, layout_of, stored_element
from tessella.dialects.tile.nest import shared_loops
from tessella.dialects.tile.split import constant_layouts, is_split, split_indices


def argument_of(op: ContractOp, kernel: KernelOp, operand: int) -> BlockArgument | None:
    """Return the kernel argument that is an operand of a statement; None if it is not an argument,
    or is read elsewhere in the kernel too."""
    value = op.inputs[operand]
    if (
        isinstance(value, BlockArgument)
        and value.block is kernel.body.block
        and value.has_one_use()
    ):
        return value
    return None


def can_relayout(op: ContractOp, kernel: KernelOp, operand: int, vector: str) -> bool:
    """Return whether an operand can be stored in a layout in which the index ``vector`` is
    innermost."""
    forms = op.input_accesses[operand]
    return (
        argument_of(op, kernel, operand) is not None
        and vector not in shared_loops(op)
        and sum(f.coefficient(vector) != 0 for f in forms) == 1
        and any(f.single == vector for f in forms)
    )


def packed_places(
    op: ContractOp,
    kernel: KernelOp,
    flat: Flat,
    vector: str,
    rows: str | None,
    width: int | None,
    dot: Dot | None = None,
    *,
    copying: bool = False,
) -> dict[int, PlaceAttr]:
    """Return the layouts and element types that operands must have for register tiles of ``width``
    elements of the vector index, by operand number.

    An operand that does not depend on the rows is packed in panels if it is a constant, if it needs
    a copy anyway, or with ``copying``. Other operands that need a copy are stored with the vector
    index innermost, as are all that need one if ``width`` is None. For an instruction that sums
    groups of products, every operand that moves with the lanes is packed in panels of groups. Such
    a panel has the instruction's element type if rows share it, unless the body decodes its
    elements.
    """
    places: dict[int, PlaceAttr] = {}
    if op.is_map:
        return places
    for i, a in enumerate(flat.accesses[: flat.inputs]):
        if a.lane_stride(vector) == 0 or not can_relayout(op, kernel, i, vector):
            continue
        argument = argument_of(op, kernel, i)
        assert argument is not None
        forms = op.input_accesses[i]
        dim = _dim_of(op, i, vector)
        moves_by_row = rows is not None and a.stride(rows) != 0
        constant, contiguous = kernel.is_constant(argument.index), a.lane_stride(vector) == 1
        if dot is not None and dot.row.k > 1 and a.lane_stride(dot.index) != 0:
            often = rows is not None and not moves_by_row
            element = dot.row.takes if often and not is_decoded(op, i) else ""
            places[i] = packed_as(_panels(op, i, dim, width or 0, dot), element)
        elif width is not None and not moves_by_row and (constant or copying or not contiguous):
            places[i] = packed_as(_panels(op, i, dim, width))
        elif not contiguous:
            order = [*(d for d in range(len(forms)) if d != dim), dim]
            places[i] = packed_as(Layout("packed", tuple(Piece(d) for d in order)))
    return places


def is_decoded(op: ContractOp, operand: int) -> bool:
    """Return whether the body computes a factor of the product from an operand. Such an operand is
    read with its own element type."""
    product = op.summed
    if product is None or operand not in product.operands:
        return False
    return bool(product.decoding(product.operands.index(operand)))


def packed_as(layout: Layout = ANY_LAYOUT, element: str = "") -> PlaceAttr:
    """Return a place with the layout and the element type of a packed operand. By default, the
    operand's own ones stay."""
    return PlaceAttr.get("any", element or "any", layout)


def _panels(op: ContractOp, operand: int, dim: int, width: int, dot: Dot | None = None) -> Layout:
    """Return the layout of an operand in panels of ``width`` elements along one dimension, in the
    order in which loops read them.

    The values of a group that an instruction sums are innermost.
    """
    ranks = {d: _loop_rank(op, operand, d) for d in range(len(op.input_accesses[operand]))}
    others = sorted((d for d in ranks if d != dim), key=ranks.__getitem__)
    outer = [Piece(d) for d in others if ranks[d][0] == 0]
    groups = {} if dot is None else {_dim_of(op, operand, dot.index): dot.row.k}
    inner = [Piece(d, div=groups.get(d, 1)) for d in others if ranks[d][0] == 1]
    within = [Piece(d, mod=size) for d, size in groups.items()]
    pieces = (*outer, Piece(dim, div=width), *inner, Piece(dim, mod=width), *within)
    return Layout("packed", pieces)


def _dim_of(op: ContractOp, operand: int, index: str) -> int:
    """Return the dimension of an operand that the index runs over alone."""
    return next(d for d, f in enumerate(op.input_accesses[operand]) if f.single == index)


def _loop_rank(op: ContractOp, operand: int, dim: int) -> tuple[int, int]:
    """Return a sort key for the index of a dimension: (0, position) for a free index, (1, position)
    for a reduced one."""
    positions = {index.name: (int(index.reduced), p) for p, index in enumerate(op.index_list)}
    ranks = [positions[n] for n, _ in op.input_accesses[operand][dim].terms]
    return max(ranks, default=(0, -1))


def set_places(op: ContractOp, places: Mapping[int, PlaceAttr], arch: str) -> None:
    """Set, on a kernel's arguments, the layouts and element types in which a statement reads
    them."""
    for operand, place in places.items():
        _pack_argument(op.inputs[operand], place, arch)


def _pack_argument(value: SSAValue, packed: PlaceAttr, arch: str) -> None:
    assert isinstance(value, BlockArgument)
    kernel = value.block.parent_op()
    assert isinstance(kernel, KernelOp)
    place = place_of(value.type)
    at = place.device.data if place is not None else arch
    element, layout = stored_element(value, packed).name, layout_of(value, packed)
    kernel.pack(value.index, PlaceAttr.get(at, element, layout))


def split_statement(op: ContractOp, arch: str) -> None:
    """Split the indices of a statement where an operand's layout splits a dimension, as nchw16c
    does with the channels, and split the layouts of its constants likewise."""
    if is_split(op):
        layouts = constant_layouts(op, _plain_constants(op))
        set_places(op, {i: packed_as(layout) for i, layout in layouts.items()}, arch)
        split_indices(op)


def _plain_constants(op: ContractOp) -> list[int]:
    """Return the numbers of the inputs that are constants of the kernel, have no split dimensions,
    and are not read by other statements."""
    kernel = op.parent_op()
    assert isinstance(kernel, KernelOp)
    found: list[int] = []
    for i, value in enumerate(op.inputs):
        argument = argument_of(op, kernel, i)
        plain = not layout_of(value).splits(len(op.input_accesses[i]))
        if argument is not None and plain and kernel.is_constant(argument.index):
            found.append(i)
    return found
