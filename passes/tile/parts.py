"""Which elements of each tensor one thread touches, if threads divide a statement between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.rt import ALONE, ANY, OWN, Part, Share
from tessella.dialects.tile import ContractOp, EmptyOp, ExtractOp, KernelOp, SelectionOp
from tessella.dialects.tile.flat import FlatAccess, flatten
from tessella.dialects.tile.nest import lives_within, shared_loops
from tessella.passes.hazards import Use
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.sizes import Size


@dataclass(frozen=True)
class Divided:
    """A loop that is divided among threads, perhaps together with the enclosing one."""

    name: str
    extent: Size
    grain: Size
    exact: bool = True
    """True if each value of the index belongs to only one thread."""
    around: tuple[str, Size] | None = None
    """The index of the enclosing loop and its range, if both loops are divided as one."""

    def step(self, access: FlatAccess) -> Size:
        """Return the distance in elements between consecutive values of the divided loop. If the
        enclosing loop is divided with it, but does not continue at the same distance, return 0."""
        step = access.stride(self.name)
        if self.around is not None and access.stride(self.around[0]) != step * self.extent:
            return 0
        return step


def roots_of(kernel: KernelOp) -> dict[SSAValue, SSAValue]:
    """Return, for every tensor of a kernel, the tensor that owns its buffer, perhaps an argument.

    Statements write into the buffer of their init.
    """
    roots: dict[SSAValue, SSAValue] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, EmptyOp):
            roots[op.res] = op.res
        elif isinstance(op, ContractOp):
            roots[op.res] = op.res if op.init is None else roots.get(op.init, op.init)
        elif isinstance(op, SelectionOp):
            roots |= {value: value for value in op.results}
    return roots


def joined(found: Iterable[Use]) -> dict[SSAValue, Part]:
    """Return, for each buffer, the elements that one thread touches in the given uses; ``ANY`` if
    the uses disagree."""
    parts: dict[SSAValue, Part] = {}
    for use in found:
        same = parts.setdefault(use.buffer, use.part).agrees(use.part)
        parts[use.buffer] = use.part if same else ANY
    return parts


def uses(op: ContractOp | SelectionOp, roots: Mapping[SSAValue, SSAValue]) -> Iterator[Use]:
    """Yield a statement's reads and writes of tensors, each with the tensor that owns the buffer,
    as in ``roots``, and with the elements that one thread touches."""
    for use in _uses_of_selection(op) if isinstance(op, SelectionOp) else _uses(op):
        yield use._replace(buffer=roots.get(use.buffer, use.buffer))


def _uses(op: ContractOp) -> Iterator[Use]:
    inner = (x for region in (op.combine, op.post) for x in region.walk())
    shared, ranges, accesses = _flattened(op)
    boxes = [[form.bounds(op.ranges) for form in access] for access in op.access_list]
    *read, written = zip(op.tensors, accesses, boxes, strict=True)
    for value, access, box in (written, *read):
        part = part_of(value, access, shared, ranges)
        yield Use(value, part, written=value is op.res, box=box)
    for x in inner:
        if isinstance(x, ExtractOp):
            yield Use(x.source, ANY if shared is not None else ALONE, written=False)


def _uses_of_selection(op: SelectionOp) -> Iterator[Use]:
    for value in op.tensors:
        yield Use(value, ALONE if op.parallel is None else ANY, written=value in op.results)


def _flattened(
    op: ContractOp,
) -> tuple[Divided | None, Mapping[str, Size], tuple[FlatAccess, ...]]:
    """Return the divided loop of a statement, the ranges of its indices, and its accesses."""
    flat = flatten(op)
    divided = [item for item in shared_loops(op).items() if item[1].parallel]
    if divided:
        (name, loop), around = divided[-1], divided[:-1]
        exact = all(steps.window is None for _, steps in divided)
        outer = next(((index, steps.extent) for index, steps in around), None)
        accesses = tuple(a.along(op.index_list) for a in flat.accesses)
        return Divided(name, loop.extent, loop.parallel, exact, outer), op.ranges, accesses
    parallel = op.schedule.data.parallel if op.schedule is not None else None
    if parallel is None:
        return None, flat.ranges, flat.accesses
    name, grain = parallel
    return Divided(name, flat.ranges[name], grain), flat.ranges, flat.accesses


def part_of(
    value: SSAValue, access: FlatAccess, shared: Divided | None, ranges: Mapping[str, Size]
) -> Part:
    """Return the elements of a tensor that one thread touches in an access; ``ANY`` if they are
    unknown.

    They are known if, for all values of symbols, the access moves in memory only within the values
    of the divided index that belong to the thread.
    """
    if shared is None:
        return ALONE
    if lives_within(value):
        return OWN
    try:
        return _shared_part(value, access, shared, ranges)
    except UndecidedSizeError:
        return ANY


def _shared_part(
    value: SSAValue, access: FlatAccess, shared: Divided, ranges: Mapping[str, Size]
) -> Part:
    step, (around, count) = shared.step(access), shared.around or (None, 1)
    if access.lanes or decided(step <= 0) or not shared.exact:
        return ANY
    period, inside = step * shared.extent * count, access.offset
    for name, stride in access.strides.items():
        if name in (shared.name, around):
            continue
        if decided(stride >= 0) and decided(stride < step):
            inside += stride * (ranges[name] - 1)
        elif decided(stride < 0) or stride % period != 0:
            return ANY
    if decided(access.offset < 0) or decided(inside >= step):
        return ANY
    size = element_of(value.type).size
    return Part.shared(Share(period * size, shared.grain * step * size, count))
