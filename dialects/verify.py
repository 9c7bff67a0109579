"""Verification of a whole program: every op, and that values are defined before use, which xDSL
does not check."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.rt import KernelOp


def verify(module: ModuleOp) -> None:
    """Raise VerifyException if a module is not consistent."""
    module.verify()
    for op in misplaced(module):
        raise order_error(op)


def verify_program(module: ModuleOp) -> None:
    """Raise VerifyException if a program is not consistent.

    It checks everything that `verify` does, except kernels, which are most of a program's ops;
    their callers are checked.
    """
    module.verify(verify_nested_ops=False)
    for op in module.ops:
        if not isinstance(op, KernelOp):
            op.verify()


def misplaced(module: ModuleOp) -> Iterator[Operation]:
    """Yield the ops that read a value which is not defined before or around them."""
    yield from _misplaced(module, set())


def order_error(op: Operation) -> VerifyException:
    """Return the error for a misplaced op."""
    return VerifyException(f"an operand of {op.name} is not defined above it")


def _misplaced(op: Operation, defined: set[SSAValue]) -> Iterator[Operation]:
    if not defined.issuperset(op.operands):
        yield op
    for region in op.regions:
        inner: set[SSAValue] = set()
        for block in region.blocks:
            inner.update(block.args, *(child.results for child in block.ops))
            defined.update(block.args)
            for child in block.ops:
                yield from _misplaced(child, defined)
        defined -= inner
    defined.update(op.results)
