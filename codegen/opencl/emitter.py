"""The emitter that writes kernels in OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from tessella.codegen.opencl.plan import plan
from tessella.codegen.opencl.scalars import PRELUDE, STORED, why_not_scalar
from tessella.codegen.opencl.statement import StatementText
from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.flat import flatten, layout_of
from tessella.passes.emitter import Emitter
from tessella.passes.plaidml.stride_table import obstacle
from tessella.runtime.devices import Source
from tessella.support.decisions import known
from tessella.targets.device_facts import DeviceFacts

MOST_ELEMENTS = 1 << 31
"""Tensors with this many elements or more have no code, because addresses are 32-bit integers."""


class OpenClEmitter(Emitter):
    """Writes statements as kernels of OpenCL C."""

    def why_not(self, op: Operation) -> str | None:
        """Return the reason why no code can be written for a statement, as a sentence; None if code
        can be written."""
        if not isinstance(op, ContractOp):
            return f"no code for {op.name}"
        return next(_reasons(op), None)

    def emit(self, kernel: KernelOp, facts: DeviceFacts) -> Source:
        """Return the source text and the launch sizes of a kernel that consists of one
        statement."""
        [statement] = kernel.statements
        found, name = plan(statement, facts), _identifier(kernel.sym_name.data)
        text = StatementText(name, statement, found, kernel.body.block.args).text()
        return Source(PRELUDE + text, name, (found.groups,), (found.items,))


def _identifier(name: str) -> str:
    return "k_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name)


def _reasons(op: ContractOp) -> Iterator[str]:
    if op.init is not None or op.is_scatter or op.running_index is not None or op.at_list:
        yield "no code for a statement that writes into another result or has a running index"
    yield from filter(None, map(_wrong_tensor, op.tensors))
    yield from filter(None, [obstacle(op)])
    bodies = filter(None, (op.combine.block, op.post_block))
    yield from filter(None, (why_not_scalar(inner) for block in bodies for inner in block.ops))
    if not _covers(op):
        yield "the statement does not write each element of its result"
    if any(c.is_of_results(len(op.inputs)) for c in flatten(op).constraints):
        yield "the statement reads or writes beyond its result"


def _wrong_tensor(value: SSAValue) -> str | None:
    element = find_element(value.type)
    if element is None or element.name not in STORED:
        return f"no code for elements of {value.type}"
    size = known(layout_of(value).size(shape_of(value)))
    return "a tensor has 2^31 elements or more" if size >= MOST_ELEMENTS else None


def _covers(op: ContractOp) -> bool:
    """Return whether the indices of a statement cover each element of its result: every dimension
    is indexed by one whole index, or has size 1."""
    names = [form.single for form in op.out_access]
    sizes = zip(names, shape_of(op.res), strict=True)
    whole = all(name is None or op.ranges[name] == size for name, size in sizes)
    ones = zip(op.out_access, names, shape_of(op.res), strict=True)
    return (
        whole
        and len({*filter(None, names)}) == len([*filter(None, names)])
        and all(name is not None or (size == 1 and not form.terms) for form, name, size in ones)
    )


EMITTER = OpenClEmitter()
