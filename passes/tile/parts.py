"""Which elements of its tensors each thread touches in a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.rt import ALONE, ANY, OWN, Kind, Part
from tessella.dialects.tile import ContractOp, EmptyOp, ExtractOp, KernelOp
from tessella.dialects.tile.flat import FlatAccess, flatten, simplify
from tessella.dialects.tile.nest import lives_within, shared_loops
from tessella.passes.hazards import Use
from tessella.support.sizes import Size


@dataclass(frozen=True)
class _Shared:
    """A loop that is divided between threads."""

    name: str
    extent: Size
    grain: int
    exact: bool = True
    """Whether each thread keeps to values of its own."""


def roots_of(kernel: KernelOp) -> dict[SSAValue, SSAValue]:
    """For every tensor made in a kernel, the tensor that owns its buffer. Statements write into the
    buffer of their init."""
    roots: dict[SSAValue, SSAValue] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, EmptyOp):
            roots[op.res] = op.res
        elif isinstance(op, ContractOp):
            roots[op.res] = roots[op.init] if op.init is not None else op.res
    return roots


def joined(found: Iterable[Use]) -> dict[SSAValue, Part]:
    """What each thread touches of each tensor in all of these uses."""
    parts: dict[SSAValue, Part] = {}
    for use in found:
        same = parts.setdefault(use.buffer, use.part).agrees(use.part)
        parts[use.buffer] = use.part if same else ANY
    return parts


def uses(op: ContractOp, roots: Mapping[SSAValue, SSAValue]) -> Iterator[Use]:
    """The tensors that a statement touches, by those that own their buffers."""
    for use in _uses(op):
        yield use._replace(buffer=roots.get(use.buffer, use.buffer))


def _uses(op: ContractOp) -> Iterator[Use]:
    inner = (x for region in (op.combine, op.post) for x in region.walk())
    shared, ranges, accesses = _flattened(op)
    *read, written = zip(op.tensors, accesses, strict=True)
    yield Use(written[0], _part(*written, shared, ranges), written=True)
    for value, access in read:
        yield Use(value, _part(value, access, shared, ranges), written=False)
    for x in inner:
        if isinstance(x, ExtractOp):
            yield Use(x.source, ANY if shared is not None else ALONE, written=False)


def _flattened(
    op: ContractOp,
) -> tuple[_Shared | None, Mapping[str, Size], tuple[FlatAccess, ...]]:
    """The loop of a statement that is divided, the ranges of its indices, and its accesses."""
    flat = flatten(op)
    divided = next((item for item in shared_loops(op).items() if item[1].parallel), None)
    if divided is not None:
        name, loop = divided
        ranges = op.ranges
        own = loop.window is None
        return _Shared(name, loop.extent, loop.parallel, own), ranges, flat.accesses
    flat = simplify(flat)
    parallel = op.schedule.data.parallel if op.schedule is not None else None
    if parallel is None:
        return None, flat.ranges, flat.accesses
    name, grain = parallel
    return _Shared(name, flat.ranges[name], grain), flat.ranges, flat.accesses


def _part(
    value: SSAValue, access: FlatAccess, shared: _Shared | None, ranges: Mapping[str, Size]
) -> Part:
    """The elements that a thread touches, where the access keeps to those of its values of the
    shared index."""
    if shared is None:
        return ALONE
    if lives_within(value):
        return OWN
    step = access.stride(shared.name)
    if access.lanes or step <= 0 or not shared.exact:
        return ANY
    period, inside = step * shared.extent, access.offset
    for name, stride in access.strides.items():
        if name == shared.name:
            continue
        if 0 <= stride < step:
            inside += stride * (ranges[name] - 1)
        elif stride < 0 or stride % period:
            return ANY
    if access.offset < 0 or inside >= step:
        return ANY
    size = max(1, element_of(value.type).bits // 8)
    return Part(Kind.SHARED, period * size, shared.grain * step * size)
