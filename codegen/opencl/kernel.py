"""The text of a kernel of OpenCL C, which writes one tensor.

__kernel void NAME(__global float *b0, long b0_at, .., int s0, ..) {
  __global float *p0 = ..
  // the statement
}

Several statements, each of which writes a part of the tensor, divide the work-groups of one launch:

  if (group < 4) {
    // the first statement
    return;
  }
  group -= 4;
  // ..
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessella.codegen.opencl.plan import plan
from tessella.codegen.opencl.scalars import PRELUDE, STORED
from tessella.codegen.opencl.size_arguments import SizeArguments
from tessella.codegen.opencl.statement import INDENT, StatementText
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ExtractOp, KernelOp
from tessella.dialects.tile.flat import layout_of
from tessella.runtime.devices import Source
from tessella.support.sizes import Size, total
from tessella.targets.device_facts import DeviceFacts


def kernel_source(kernel: KernelOp, facts: DeviceFacts) -> Source:
    """Return the source of a kernel of one group of statements."""
    plans, sizes = [plan(op, facts) for op in kernel.statements], SizeArguments()
    for value in (*kernel.body.block.args, *kernel.returned.values):
        sizes(layout_of(value).size(shape_of(value)))  # a launch checks that addresses fit
    items = max(each.items for each in plans)
    checks = any(isinstance(op, ExtractOp) for op in kernel.walk())
    parameters, pointers = _tensors(kernel, checks)
    name = "k_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in kernel.sym_name.data)
    lines = [f"{INDENT}{line}" for line in pointers]
    lines += [f"{INDENT}const int item = get_local_id(0);", f"{INDENT}int group = get_group_id(0);"]
    arguments, is_one = kernel.body.block.args, len(plans) == 1
    for op, each in zip(kernel.statements, plans, strict=True):
        text = StatementText(op, each, arguments, sizes, 1 if is_one else 2).lines()
        lines += text if is_one else _part(text, sizes(each.groups), each.items)
    groups = total(each.groups for each in plans)
    parameters += [f"int {size}" for size in sizes.names]
    head = f"__kernel void {name}({', '.join(parameters)}) {{"
    text = PRELUDE + "\n".join([head, *lines, "}", ""])
    return Source(text, name, (groups,), (items,), checks, sizes.sizes)


def _tensors(kernel: KernelOp, checks: bool) -> tuple[list[str], list[str]]:
    """Return the parameters of a kernel, and the lines that define the pointers to its tensors."""
    values = [*kernel.body.block.args, *kernel.returned.values]
    kinds = {f"{i}": (STORED[element_of(v.type).name], f"p{i}") for i, v in enumerate(values)}
    if checks:
        kinds["w"] = ("int", "word")
    parameters = [f"__global {kind} *b{i}, long b{i}_at" for i, (kind, _) in kinds.items()]
    pointers = [
        f"__global {kind} *{name} = (__global {kind} *)((__global char *)b{i} + b{i}_at);"
        for i, (kind, name) in kinds.items()
    ]
    return parameters, pointers


def _part(text: Sequence[str], groups: Size, items: int) -> Iterator[str]:
    """Yield the lines of a statement for the next work-groups of a launch, and the first of their
    work-items."""
    yield f"{INDENT}if (group < {groups}) {{"
    yield f"{INDENT * 2}if (item >= {items}) return;"
    yield from text
    yield f"{INDENT * 2}return;"
    yield f"{INDENT}}}"
    yield f"{INDENT}group -= {groups};"
