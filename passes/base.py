"""Helpers shared by passes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tessella.dialects import rt
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp
from tessella.dialects.nn.core import Array, NnOp, shape_of
from tessella.dialects.place import place_of
from tessella.dialects.tile import SegmentOp
from tessella.runtime.elements import widened
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InternalError

PATTERN = "nn.pattern"
"""Attribute of an op that stands for others: by which pattern, or pass, it came to do so."""
CONSUMED = "nn.consumed"
"""Attribute of an op that stands for others: these, each as ``nn.erf@node``."""
PROVENANCE = ("node", PATTERN, CONSUMED)
"""The attributes that tell where an op came from, and nothing of what it computes."""

_COMPARED = 64 << 10  # bytes: larger arrays are not searched for two elements that differ


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The module's functions with a body."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def segments(module: ModuleOp) -> list[SegmentOp]:
    """The native stretches of the program, on tensors."""
    return [op for op in module.body.block.ops if isinstance(op, SegmentOp)]


def buffer_segments(module: ModuleOp) -> list[rt.SegmentOp]:
    """The native stretches of the program, on buffers."""
    return [op for op in module.body.block.ops if isinstance(op, rt.SegmentOp)]


def buffer_weights(module: ModuleOp) -> Iterator[rt.WeightOp]:
    """The weights of the segments on buffers, in order."""
    for segment in buffer_segments(module):
        yield from (op for op in segment.body.block.ops if isinstance(op, rt.WeightOp))


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a weight or a splat."""
    return isinstance(value.owner, ConstantOp)


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """The function of this name. Raises InternalError where there is none."""
    for op in functions(module):
        if op.sym_name.data == name:
            return op
    raise InternalError(f"the module has no function @{name}")


def bits_of(array: Array) -> Array:
    """The elements as unsigned integers: 0 and -0 differ, and NaN equals itself."""
    return array.reshape(-1).view(f"u{array.itemsize}")


def common_number(array: Array) -> float | int | None:
    """The number that all elements equal, if the array is small enough to check."""
    if not 0 < array.nbytes <= _COMPARED:
        return None
    bits = bits_of(array)
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return None
    return widened(array.reshape(-1)[:1]).item()


def known_number(value: SSAValue, weights: WeightStore) -> float | int | None:
    """The number that all elements of a splat or of a small weight equal, if there is one."""
    owner = value.owner
    if isinstance(owner, SplatOp):
        return owner.number
    if not isinstance(owner, WeightOp) or place_of(value.type) is not None:
        return None
    array = weights.get(owner.symbol.root_reference.data)
    return None if array is None else common_number(array)


def known_matrix(value: SSAValue, weights: WeightStore) -> Array | None:
    """The constant array [M, N] that a value [.., M, N] with one matrix is, if it is one."""
    owner, shape = value.owner, shape_of(value)
    if not isinstance(owner, WeightOp) or place_of(value.type) is not None:
        return None
    array = weights.get(owner.symbol.root_reference.data)
    if array is None or len(shape) < 2 or 0 in shape or math.prod(shape[:-2]) != 1:
        return None
    return widened(array).reshape(shape[-2:])


def record_fusion(new: NnOp, pattern: str, consumed: Sequence[NnOp]) -> None:
    """Record on an op the source ops that it replaces, in execution order.

    An op that already was of this kind keeps the name of the pattern that made it.
    """
    same = (op for op in consumed if type(op) is type(new) and PATTERN in op.attributes)
    names = [op.attributes[PATTERN] for op in same]
    new.attributes[PATTERN] = names[0] if names else StringAttr(pattern)
    new.attributes[CONSUMED] = ArrayAttr([source for op in consumed for source in _sources(op)])


def _sources(op: NnOp) -> Sequence[StringAttr]:
    """The source ops that an op replaces; the op itself if it replaces none."""
    known = op.attributes.get(CONSUMED)
    if isinstance(known, ArrayAttr):
        return [source for source in known if isinstance(source, StringAttr)]
    return [StringAttr(f"{op.name}@{op.node}" if "node" in op.attributes else op.name)]
