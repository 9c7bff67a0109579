"""Costs at devices beside the CPU, from their facts, and the kernels that have no code there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tessella.dialects.elements import bytes_of, element_of
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, is_apart
from tessella.dialects.tile import ContractOp, ExtractOp, KernelOp
from tessella.kernels.registry import VIEW_KERNEL, Kernel
from tessella.passes.emitter import Group, Statement, emitter_of, groups_of, obstacle_of
from tessella.passes.pick.cost_key import exact_key
from tessella.passes.pick.scratch import scratch_kernel
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.runtime.devices import device
from tessella.support.decisions import known_all
from tessella.support.sizes import Size, estimated
from tessella.targets import native


def copy_seconds(start: PlaceAttr, end: PlaceAttr, size: Size) -> float:
    """Return the seconds of a copy of ``size`` bytes between two places; 0 within the memory of the
    host."""
    if start.device == end.device and device(end.device.data).copies_itself:
        return device(end.device.data).facts.kernel_seconds(0, 2 * estimated(size))
    apart = [name for p in (start, end) if is_apart(name := p.device.data)]
    return sum(device(name).facts.copy_seconds(estimated(size)) for name in apart)


def why_not_on_device(kernel: Kernel, op: NnOp, place: PlaceAttr) -> str | None:
    """Return why a kernel cannot be built for an op at a place beside the CPU; None if it can, and
    for places at the CPU.

    Raises UndecidedSizeError for an op with symbolic sizes and a kernel in the device's language.
    """
    name = place.device.data
    if not is_apart(name):
        return None
    if kernel.name == VIEW_KERNEL:
        return None
    if kernel.lower is None:
        for value in (*op.operands, *op.results):
            known_all(shape_of(value))
        return None
    emitter = emitter_of(name)
    reasons = (obstacle_of(group) or emitter.why_not(group) for group in _groups(kernel, op, place))
    return next((reason for reason in reasons if reason is not None), None)


def device_seconds(op: NnOp, kernel: Kernel, place: PlaceAttr) -> float:
    """Return the seconds of a generated kernel on a device: the sum over its groups of statements,
    each of which is one launch."""
    if kernel.name == VIEW_KERNEL:
        return 0.0
    facts = device(place.device.data).facts
    return sum(
        facts.kernel_seconds(sum(map(_operations, group)), _bytes(group))
        for group in _groups(kernel, op, place)
    )


def _groups(kernel: Kernel, op: NnOp, place: PlaceAttr) -> Sequence[Group]:
    scratch: KernelOp = scratch_kernel(exact_key(op), op, kernel, place)
    TileFuseMapsPass().rewrite(scratch, native())
    return groups_of(scratch.all_statements)


def _operations(op: Statement) -> float:
    if not isinstance(op, ContractOp):
        return 0.0
    return _points(op) * (len(list(op.combine.walk())) + (0 if op.is_map else 1))


def _points(op: ContractOp) -> int:
    return math.prod(estimated(index.range) for index in op.index_list)


def _bytes(group: Group) -> float:
    """Return the bytes of the tensors that a group reads and writes. Of a tensor that is read at
    computed coordinates, an element is read at each point."""
    statements = [op for op in group if isinstance(op, ContractOp)]
    values = [*(v for op in statements for v in op.tensors[:-1]), group[-1].results[0]]
    total = sum(estimated(bytes_of(tensor_type(value))) for value in dict.fromkeys(values))
    for op in statements:
        for inner in op.walk():
            if isinstance(inner, ExtractOp):
                total += _points(op) * (element_of(inner.source.type).bits // 8 or 1)
    return total
