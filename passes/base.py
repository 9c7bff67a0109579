"""Helpers shared by passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tessella.dialects import rt
from tessella.dialects.graph import returned_values, stated_places
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.dialects.tile import SegmentOp
from tessella.support.errors import InternalError

PATTERN = "nn.pattern"
"""The attribute of an op that replaces others: the pattern or pass that created it."""
CONSUMED = "nn.consumed"
"""The attribute of an op that replaces others: the replaced ops, each as ``nn.erf@node``."""
Gain = Literal["sure", "likely", "open"]
"""How the cost of a rewrite's new ops compares with that of the old ones: `sure` if it is always
lower, `likely` if it is lower unless estimates clearly say otherwise, `open` if it is unknown."""
PROVENANCE = ("node", PATTERN, CONSUMED)
"""The attributes that record an op's origin, not its meaning."""


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """Yield the module's functions with a body."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def segments(module: ModuleOp) -> list[SegmentOp]:
    """Return the segments of the program, on tensors, for all devices."""
    return [op for op in module.body.block.ops if isinstance(op, SegmentOp)]


def cpu_segments(module: ModuleOp) -> list[SegmentOp]:
    """Return the segments of the program, on tensors, that become native code."""
    return [segment for segment in segments(module) if segment.device is None]


def buffer_segments(module: ModuleOp) -> list[rt.SegmentOp]:
    """Return the native segments of the program, on buffers."""
    return [op for op in module.body.block.ops if isinstance(op, rt.SegmentOp)]


def buffer_weights(module: ModuleOp) -> Iterator[rt.WeightOp]:
    """Yield the weights of the segments on buffers, in order."""
    for segment in buffer_segments(module):
        yield from (op for op in segment.body.block.ops if isinstance(op, rt.WeightOp))


def places_of_arguments(function: FuncOp, device: str) -> list[PlaceAttr]:
    """Return the places (device, element type, layout) of a function's arguments: the place in an
    argument's attribute, or a row-major place at ``device`` if there is none."""
    arguments = function.body.block.args
    stated = stated_places(function.arg_attrs, len(arguments))
    return [at or row_major(x, device) for at, x in zip(stated, arguments, strict=True)]


def places_of_results(function: FuncOp, device: str) -> list[PlaceAttr]:
    """Return the places (device, element type, layout) of a function's results: the place in a
    result's attribute, with `any` replaced by that part of the returned value's place; or a
    row-major place at ``device`` if there is none."""
    values = returned_values(function)
    stated = stated_places(function.res_attrs, len(values))
    return [at or row_major(x, device) for at, x in zip(stated, values, strict=True)]


def row_major(value: SSAValue, device: str) -> PlaceAttr:
    """Return the place of a tensor at a device in row-major layout."""
    return PlaceAttr.get(device, precision_of(tensor_type(value).element_type), NCHW)


def is_constant(value: SSAValue) -> bool:
    """Return whether a value is a weight or a splat."""
    return isinstance(value.owner, ConstantOp)


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """Return the function with this name. Raises InternalError if there is none."""
    for op in functions(module):
        if op.sym_name.data == name:
            return op
    raise InternalError(f"the module has no function @{name}")


def record_fusion(new: NnOp, pattern: str, consumed: Sequence[NnOp]) -> None:
    """Record on ``new`` the source ops that it replaces, in execution order, and the name of the
    pattern.

    If one of the replaced ops is of the same class and was created by a pattern, the name of that
    pattern is kept.
    """
    same = (op for op in consumed if type(op) is type(new) and PATTERN in op.attributes)
    names = [op.attributes[PATTERN] for op in same]
    new.attributes[PATTERN] = names[0] if names else StringAttr(pattern)
    new.attributes[CONSUMED] = ArrayAttr([source for op in consumed for source in sources_of(op)])


def sources_of(op: NnOp) -> Sequence[StringAttr]:
    """Return the source ops that an op replaces, or the op itself."""
    known = op.attributes.get(CONSUMED)
    if isinstance(known, ArrayAttr):
        return [source for source in known if isinstance(source, StringAttr)]
    return [StringAttr(f"{op.name}@{op.node}" if "node" in op.attributes else op.name)]
