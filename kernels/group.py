"""Lowering a group of ops to one kernel.

A group is lowered inside a program (``lowering/nn_to_tile.py``), or outside any program to estimate
its cost (``passes/pick/scratch.py``). The two differ in the source of further operands of the
kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Region, SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import Array, NnOp, Tensor, tensor_type
from tessella.dialects.nn.elementwise import CastOp, is_conversion
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.nn.traits import SumsProducts
from tessella.dialects.sizes import dims
from tessella.dialects.tile import KernelOp, ReturnOp, weight_of
from tessella.kernels.builder import KernelBuilder
from tessella.kernels.elements import elements_of
from tessella.kernels.registry import picked_kernel, why_misplaced
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InternalError, InvalidModelError
from tessella.support.sizes import Size


def _stays_wide(op: NnOp, result: SSAValue) -> bool:
    """Return whether a result of a narrow float type stays unrounded, in the wider type of the
    arithmetic. All its readers must be ops of the group with kernels that compute in a wider
    type.

    The casts of the user's program read and produce rounded numbers, and products read stored
    elements.
    """
    if not element_of(result.type).narrow or _is_cast(op):
        return False
    readers = [use.operation for use in result.uses]
    return bool(readers) and all(
        isinstance(reader, NnOp)
        and isinstance(reader.parent_op(), FusedOp)
        and not reader.has_trait(SumsProducts)
        and not _is_cast(reader)
        and _computes_wide(reader)
        for reader in readers
    )


def _is_cast(op: NnOp) -> bool:
    """Return whether an op is a cast of the user's program, and not a conversion that was inserted
    because two kernels use different element types."""
    return isinstance(op, CastOp) and not is_conversion(op)


def _computes_wide(op: NnOp) -> bool:
    """Return whether the kernel of an op widens the narrow floats that it reads. Kernels that move
    elements do not."""
    row = picked_kernel(op).row(elements_of(op))
    return row is not None and not ELEMENTS[row.computes].narrow


class GroupLowering(ABC):
    """Lowers the ops of a group to one kernel. Tensors from outside the group become arguments of
    the kernel."""

    def __init__(self) -> None:
        self.block = Block()
        self.arguments: list[SSAValue] = []
        """The outside tensors, one for each argument."""
        self.values: dict[SSAValue, SSAValue] = {}
        """The kernel's tensor for each tensor that the ops read or produce."""
        self.names: list[str] = []
        self.nodes: list[str] = []
        self._outside: dict[SSAValue, SSAValue] = {}
        self._splats: dict[SSAValue, float] = {}
        self.builder = KernelBuilder(
            self.block, self._constant, self._reshaped, self._splats.get, self._derived
        )

    @abstractmethod
    def weight(self, array: Array, hint: str) -> SSAValue:
        """Return a new weight that holds ``array``."""

    @abstractmethod
    def view(self, value: SSAValue, type: Tensor) -> SSAValue:
        """Return a tensor's memory as a tensor of another type."""

    @abstractmethod
    def derived(
        self, value: SSAValue, shape: Sequence[Size], compute: Callable[[Array], Array]
    ) -> SSAValue | None:
        """Return a weight computed from a tensor; None if the tensor is not a constant."""

    @abstractmethod
    def stored(self, splat: SplatOp) -> SSAValue:
        """Return a splat as a tensor in memory."""

    def argument(self, value: SSAValue) -> SSAValue:
        """Add an argument to the kernel for a tensor from outside the group, and return it."""
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        self.arguments.append(value)
        self._outside[argument] = value
        if isinstance(value.owner, SplatOp):
            self._splats[argument] = value.owner.number
        return argument

    def _constant(self, array: Array, hint: str) -> SSAValue:
        return self.argument(self.weight(array, hint))

    def _derived(
        self, value: SSAValue, shape: Sequence[Size], compute: Callable[[Array], Array]
    ) -> SSAValue | None:
        source = self._outside.get(value)
        made = None if source is None else self.derived(source, shape, compute)
        return None if made is None else self.argument(made)

    def _reshaped(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        source = self._outside.get(value)
        if source is None:
            raise InternalError("only an operand of the kernel can be viewed under another shape")
        type = tensor_type(source)
        return self.argument(
            self.view(source, Tensor(type.element_type, dims(shape), type.encoding))
        )

    def lower(self, op: NnOp) -> None:
        """Add the statements of one op. Raises InvalidModelError if its kernel has no lowering or
        does not fit the op."""
        kernel, reason = picked_kernel(op), why_misplaced(op)
        if kernel.lower is None or reason is not None:
            raise InvalidModelError(
                f"{op.name} ({op.node}): {reason or f'{kernel.name} has no lowering'}",
                hint="pick-kernels picks a kernel for each op",
            )
        row = kernel.row(elements_of(op))
        self.builder.computes = None if row is None else row.computes
        results = kernel.lower(self.builder, op, *(self.values[v] for v in op.operands))
        listed = [results] if isinstance(results, SSAValue) else list(results)
        for i, (result, made) in enumerate(zip(op.results, listed, strict=True)):
            value = made
            if not _stays_wide(op, result):
                value = self.builder.stored(made, self.builder.result_type(op, i))
            self.values[result] = value
            value.name_hint = value.name_hint or result.name_hint
        self.names.append(kernel.name)
        if not is_conversion(op):
            self.nodes.append(op.node)

    def kernel(self, results: Sequence[SSAValue]) -> KernelOp:
        """Finish the kernel and return it. A call of the kernel must pass ``arguments``."""
        self.block.add_op(ReturnOp(results))
        self._drop_unused()
        arguments = [a.type for a in self.block.args]
        types = FunctionType.from_lists(arguments, [r.type for r in results])
        constants = [weight_of(value) is not None for value in self.arguments]
        return KernelOp("kernel", types, Region(self.block), constants)

    def _drop_unused(self) -> None:
        for i in reversed(range(len(self.arguments))):
            argument, value = self.block.args[i], self.arguments[i]
            if argument.first_use is None:
                self.block.erase_arg(argument)
                del self.arguments[i]
            elif isinstance(value.owner, SplatOp):
                self.arguments[i] = self.stored(value.owner)
