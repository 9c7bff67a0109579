"""Merging two kernels into one, which replaces consecutive calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.dialects.builtin import ArrayAttr, FunctionType
from xdsl.ir import Block, Region, SSAValue, Use

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import (
    Access,
    AccessAttr,
    CallOp,
    ContractOp,
    Index,
    IndicesAttr,
    KernelOp,
    Linear,
    ReturnOp,
    stays_inside,
    through_views,
)
from tessella.dialects.tile.nest import counted
from tessella.passes.tile.rebuild import reads_points
from tessella.support.sizes import Size


@dataclass(frozen=True)
class CallPair:
    """Two calls of kernels, in the order in which they run, with the kernels that they call."""

    first: CallOp
    second: CallOp
    kernels: tuple[KernelOp, KernelOp]
    kept: tuple[SSAValue, ...]
    """Results of the first call that have readers other than the second call."""

    @property
    def passed(self) -> list[tuple[int, SSAValue]]:
        """The arguments of the second call that are results of the first: their numbers, and the
        results."""
        roots = [(i, through_views(value)) for i, value in enumerate(self.second.arguments)]
        return [(i, root) for i, root in roots if root in self.first.res]

    @property
    def arguments(self) -> list[SSAValue]:
        """The arguments of the merged kernel."""
        passed = {i for i, _ in self.passed}
        rest = [v for i, v in enumerate(self.second.arguments) if i not in passed]
        return list(dict.fromkeys((*self.first.arguments, *rest)))

    def merged(self, name: str) -> KernelOp | None:
        """Return the kernel that replaces both calls, with this name.

        Returns None if the second call reads results of the first in another shape, unless the
        shapes differ only in dimensions of 1.
        """
        block = Block(arg_types=[value.type for value in self.arguments])
        outer = dict(zip(self.arguments, block.args, strict=True))
        results = self._append(block, 0, [outer[v] for v in self.first.arguments])
        made: dict[SSAValue, SSAValue] = dict(zip(self.first.res, results, strict=True))
        inputs = {i: made[root] for i, root in self.passed}
        second = [inputs.get(i) or outer[v] for i, v in enumerate(self.second.arguments)]
        if not all(_fits(self.kernels[1].body.block.args[i], v) for i, v in inputs.items()):
            return None
        others = self._append(block, 1, second)
        returned = [*(made[value] for value in self.kept), *others]
        block.add_op(ReturnOp(returned))
        kernel = KernelOp(
            name,
            FunctionType.from_lists(block.arg_types, [v.type for v in returned]),
            Region(block),
            [self._is_constant(value) for value in self.arguments],
            nodes=[node.data for each in self.kernels for node in each.nodes or ()],
        )
        for value, argument in outer.items():
            argument.name_hint = value.name_hint
        for op in kernel.statements:
            take_blocks(op)
        return kernel

    def _append(self, block: Block, number: int, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """Append the statements of kernel ``number`` to a block, with these arguments. Returns the
        kernel's results."""
        kernel = self.kernels[number]
        values: dict[SSAValue, SSAValue] = {}
        values |= zip(kernel.body.block.args, arguments, strict=True)
        for op in kernel.body.block.ops:
            if op is kernel.returned:
                continue
            block.add_op(clone := op.clone(values))
            if isinstance(op, ContractOp) and isinstance(clone, ContractOp):
                _read_in_shape(op, clone)
        return [values[value] for value in kernel.returned.values]

    def _is_constant(self, value: SSAValue) -> bool:
        return any(
            kernel.is_constant(i)
            for call, kernel in zip((self.first, self.second), self.kernels, strict=True)
            for i, argument in enumerate(call.arguments)
            if argument is value
        )


def take_blocks(op: ContractOp) -> None:
    """Split an index of an elementwise statement in two, where the statement that writes its
    operand counts blocks of this index.

    Both statements can then share a loop over the blocks: ``[y: 224] (%t[y]) -> [y]`` becomes ``[y:
    56, y_in: 4] (%t[4*y + y_in]) -> [4*y + y_in]``.
    """
    for value, access in zip(op.inputs, op.input_accesses, strict=True):
        writer = value.owner
        if not isinstance(writer, ContractOp) or not _is_plain(op):
            continue
        for form, written in zip(access, writer.out_access, strict=True):
            found, name = counted(written, writer.ranges), form.single
            if name is None or found is None or found[1] == 1:
                continue
            if op.ranges[name] == found[1] * writer.ranges[found[0]]:
                _divide(op, name, found[1])
                return


def _is_plain(op: ContractOp) -> bool:
    """Return whether a statement is elementwise and its indices occur only in accesses."""
    return (
        op.is_map and op.post_block is None and not op.where_list and not reads_points(op.combine)
    )


def _divide(op: ContractOp, name: str, block: int) -> None:
    """Split an index into two, the first of which counts blocks of ``block`` values."""
    inner = next(n for i in count() if (n := f"{name}_in{i or ''}") not in op.ranges)
    both = {name: Linear.of(name, block) + Linear.of(inner)}
    indices: list[Index] = []
    for index in op.index_list:
        divided = Index(name, index.range // block), Index(inner, block)
        indices += divided if index.name == name else [index]
    op.indices = IndicesAttr(tuple(indices))
    forms = (tuple(form.substitute(both) for form in access) for access in op.access_list)
    op.accesses = ArrayAttr(map(AccessAttr, forms))


def _fits(argument: SSAValue, value: SSAValue) -> bool:
    """Return whether a kernel can read the tensor ``value`` as its argument ``argument``.

    Their shapes must be equal, or differ only in dimensions of 1. In the second case, all accesses
    must be at index 0 of these dimensions, and none at computed coordinates.
    """
    if shape_of(argument) == shape_of(value):
        return True
    extents, others = ([n for n in shape_of(each) if n != 1] for each in (argument, value))
    return extents == others and all(_stays_in_units(use) for use in argument.uses)


def _stays_in_units(use: Use) -> bool:
    """Return whether a statement uses a tensor only at index 0 of its dimensions of size 1."""
    op = use.operation
    if not isinstance(op, ContractOp):
        return False
    access, shape = op.access_list[use.index], shape_of(op.operands[use.index])
    units = tuple(form for form, extent in zip(access, shape, strict=True) if extent == 1)
    return stays_inside(units, [1] * len(units), op.ranges)


def _read_in_shape(old: ContractOp, new: ContractOp) -> None:
    """Adapt the accesses of a copied statement to the dimensions of the tensors that it reads."""
    accesses = [
        _in_shape(access, shape_of(before), shape_of(after))
        for access, before, after in zip(old.access_list, old.tensors, new.tensors, strict=True)
    ]
    new.accesses = ArrayAttr(map(AccessAttr, accesses))


def _in_shape(access: Access, old: Sequence[Size], new: Sequence[Size]) -> Access:
    """Return an access to a tensor adapted to a shape that differs only in dimensions of 1."""
    if list(old) == list(new):
        return access
    forms = iter([form for form, extent in zip(access, old, strict=True) if extent != 1])
    return tuple(next(forms) if extent != 1 else Linear() for extent in new)
