"""What passes share."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.support.errors import InternalError


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The module's functions that have a body."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a weight or a splat."""
    return isinstance(value.owner, ConstantOp)


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """The function of this name. Raises InternalError where there is none."""
    for op in functions(module):
        if op.sym_name.data == name:
            return op
    raise InternalError(f"the module has no function @{name}")


def place_owner(op: Operation) -> NnOp | None:
    """The op as one that names a kernel, or None."""
    return op if isinstance(op, NnOp) and op.places is not None else None
