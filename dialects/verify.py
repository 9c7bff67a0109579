"""Verification of a whole program: every op, and that values are defined before use, which xDSL
does not check."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import rt, tile
from tessella.dialects.structure import structure


def verify(module: ModuleOp) -> None:
    """Raise VerifyException if a module is not consistent."""
    module.verify()
    _check_order(module)


class Verifier:
    """A verifier for a program that several passes change in turn, most of them in few functions.

    A program that equals a verified one is skipped, and a kernel that equals a verified one, as
    kernels refer to nothing outside themselves. Other functions of a changed program are verified
    again, as their validity depends on the functions that they call.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        """The number of each function verified so far, by its structure."""
        self._kernels: set[int] = set()
        """The numbers of the verified kernels."""
        self._programs: set[tuple[int, ...]] = set()
        """The verified programs, each represented by the numbers of its functions."""

    def verify(self, module: ModuleOp) -> None:
        """Raise VerifyException if a module is not consistent."""
        module.verify(verify_nested_ops=False)
        numbers = tuple(self._number(op) for op in module.ops)
        if numbers in self._programs:
            return
        for op, number in zip(module.ops, numbers, strict=True):
            if number not in self._kernels:
                op.verify()
                if isinstance(op, rt.KernelOp | tile.KernelOp):
                    self._kernels.add(number)
        _check_order(module)
        self._programs.add(numbers)

    def _number(self, function: Operation) -> int:
        return self._numbers.setdefault(structure(function), len(self._numbers))


def verify_program(module: ModuleOp) -> None:
    """Raise VerifyException if a program is not consistent, without verifying its kernels.

    The kernels contain most ops of a program. Everything else that `verify` checks is checked,
    including the calls of kernels.
    """
    module.verify(verify_nested_ops=False)
    for op in module.ops:
        if not isinstance(op, rt.KernelOp):
            op.verify()


def _check_order(module: ModuleOp) -> None:
    for op in misplaced(module):
        raise order_error(op)


def misplaced(module: ModuleOp) -> Iterator[Operation]:
    """Yield the ops with an operand that is not defined before them, in their block or in a block
    around it."""
    yield from _misplaced(module, set())


def order_error(op: Operation) -> VerifyException:
    """Return the error for an op with an operand that is not defined above it."""
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
