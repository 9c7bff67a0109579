"""The emitter that writes kernels through their trees, in any language that has a printer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from xdsl.ir import SSAValue

from tessella.codegen.semtree.kernel import kernel_tree
from tessella.codegen.semtree.languages import LANGUAGES
from tessella.codegen.semtree.printer import Printer
from tessella.codegen.semtree.scalars import ELEMENTS, why_not_scalar
from tessella.codegen.semtree.tree import WORD, Kernel
from tessella.dialects.elements import find_element
from tessella.dialects.layout import ANY_LAYOUT
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, ExtractOp, KernelOp
from tessella.dialects.tile.flat import flatten, layout_of
from tessella.passes.emitter import Emitter, Group
from tessella.passes.plaidml.stride_table import table_obstacle
from tessella.runtime.devices import Source
from tessella.support.conditions import always
from tessella.support.decisions import decided_zero
from tessella.support.sizes import Size, product, total
from tessella.targets.device_facts import DeviceFacts

Box = tuple[tuple[Size, Size], ...]
"""A part of a tensor: the first element and the end along each dimension."""
MOST_ELEMENTS = 1 << 31
"""Tensors with this many elements or more have no code, because addresses are 32-bit integers."""


@dataclass(frozen=True)
class TreeEmitter(Emitter):
    """Writes statements as kernels in the language of a printer."""

    printer: Printer

    @property
    def language(self) -> Printer:
        return self.printer

    def why_not(self, group: Group) -> str | None:
        """Return why no kernel can be written for a group of statements, as a sentence; None if one
        can."""
        parts: list[ContractOp] = []
        for op in group:
            if not isinstance(op, ContractOp):
                return f"no code for {op.name}"
            parts.append(op)
        return next((reason for op in parts for reason in _reasons(op)), _misfit(parts))

    def emit(self, kernel: KernelOp, facts: DeviceFacts) -> Source:
        """Return the source text of a kernel that consists of one group of statements."""
        return self.source(kernel_tree(kernel, self.printer.facts or facts))

    def source(self, tree: Kernel) -> Source:
        """Return the text of a kernel's tree."""
        text, checks, sizes = self.printer.text(tree), WORD in tree.tensors, (*tree.sizes.values(),)
        return Source(text, tree.name, (tree.groups,), (tree.items,), checks, sizes)

    def in_language(self, name: str) -> TreeEmitter | None:
        """Return an emitter for a language, which `LANGUAGES` may have."""
        printer = LANGUAGES.get(name)
        return None if printer is None else TreeEmitter(printer)


def _reasons(op: ContractOp) -> Iterator[str]:
    if op.is_scatter or op.running_index is not None or op.at_list:
        yield "no code for an indexed write, or a running index"
    extracts = [inner.source for inner in op.walk() if isinstance(inner, ExtractOp)]
    yield from filter(None, map(_wrong_tensor, (*op.tensors, *extracts)))
    yield from filter(None, [table_obstacle(op), *map(_wrong_source, extracts)])
    bodies = filter(None, (op.combine.block, op.post_block))
    yield from filter(None, (why_not_scalar(inner) for block in bodies for inner in block.ops))
    if any(c.is_of_results(len(op.inputs)) for c in flatten(op).constraints):
        yield "the statement reads or writes beyond its result"


def _wrong_tensor(value: SSAValue) -> str | None:
    element = find_element(value.type)
    if element is None or element.name not in ELEMENTS:
        return f"no code for elements of {value.type}"
    size = layout_of(value).size(shape_of(value))
    return "a tensor has 2^31 elements or more" if always(size >= MOST_ELEMENTS) else None


def _wrong_source(value: SSAValue) -> str | None:
    """Return why elements of a tensor cannot be read at computed coordinates; None if they can."""
    shape, layout = shape_of(value), layout_of(value)
    if layout == ANY_LAYOUT or layout.splits(len(shape)):
        return "a tensor that is read at computed coordinates has no strides"
    return "a tensor is empty" if any(map(decided_zero, shape)) else None


def _misfit(parts: Sequence[ContractOp]) -> str | None:
    """Return why statements that each write a part of one result cannot be one kernel; None if they
    can. They must write each element once."""
    if len(parts) > 1 and not all(op.is_map for op in parts):
        return "no code for sums that are a part of their result"
    boxes = [_box(op) for op in parts]
    written = total(product(end - first for first, end in box) for box in boxes if box is not None)
    size = product(shape_of(parts[-1].res))
    overlaps = any(_overlap(a, b) for a, b in combinations(filter(None, boxes), 2))
    if None in boxes or overlaps or written != size:
        return "the statements do not write each element of their result once"
    return None


def _box(op: ContractOp) -> Box | None:
    """Return the box of the result that a statement writes, as its first element and its end along
    each dimension; None if the statement does not write a box."""
    names = [name for form in op.out_access for name, _ in form.terms]
    if len({*names}) < len(names) or any(len(form.terms) > 1 for form in op.out_access):
        return None
    box: list[tuple[Size, Size]] = []
    for form in op.out_access:
        first: Size = form.constant
        extent: Size = 1
        for name, factor in form.terms:
            if factor != 1:
                return None
            extent = op.ranges[name]
        box.append((first, first + extent))
    return tuple(box)


def _overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes may have common elements for some values of symbols."""
    return not any(
        always(end <= first_b) or always(end_b <= first)
        for (first, end), (first_b, end_b) in zip(a, b, strict=True)
    )


OPENCL = TreeEmitter(LANGUAGES["opencl"])
"""The emitter of OpenCL devices."""
