"""The tree of a kernel with one group of statements, which writes one tensor.

Several statements, each of which writes a part of the tensor, divide the work-groups of one launch:

    branch group < 4:
      the first statement
      return
    group = group - 4
    ..
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tessella.codegen.semtree import tree
from tessella.codegen.semtree.plan import plan, search_tile
from tessella.codegen.semtree.size_arguments import SizeArguments
from tessella.codegen.semtree.statement import GROUP, ITEM, StatementTree
from tessella.codegen.semtree.tree import (
    Apply,
    Assign,
    Branch,
    Declare,
    Kernel,
    Memory,
    Name,
    Return,
    Statement,
    compare,
    difference,
    guarded,
    number,
)
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, ExtractOp, KernelOp
from tessella.dialects.tile.flat import layout_of
from tessella.passes.plaidml.model import TileStats
from tessella.support.sizes import Size, total
from tessella.targets.device_facts import DeviceFacts

Choose = Callable[[ContractOp, DeviceFacts], TileStats]
"""A function that chooses the tile of a statement."""


def searched(op: ContractOp, facts: DeviceFacts) -> TileStats:
    """Return the tile with the best score in PlaidML's search, with its statistics."""
    found = search_tile(op, facts)
    return found.stats(found.chosen)


def kernel_tree(kernel: KernelOp, facts: DeviceFacts, choose: Choose = searched) -> Kernel:
    """Return the tree of a kernel of one group of statements."""
    statements, sizes = kernel.statements, SizeArguments()
    for value in (*kernel.body.block.args, *kernel.returned.values):
        sizes(layout_of(value).size(shape_of(value)))  # a launch checks that addresses fit
    plans = [plan(op, facts, choose(op, facts)) for op in statements]
    tensors = _tensors(kernel)
    memories = dict(zip((*kernel.body.block.args, *kernel.returned.values), tensors, strict=False))
    memories.update({op.res: tensors[len(kernel.body.block.args)] for op in statements})
    trees = [StatementTree(*each, memories, sizes) for each in zip(statements, plans, strict=True)]
    body: list[Statement] = [
        Declare(ITEM, Apply(tree.ITEM_ID, ())),
        Declare(GROUP, Apply(tree.GROUP_ID, ()), changes=True),
    ]
    for made, each in zip(trees, plans, strict=True):
        body += (
            made.statements() if len(trees) == 1 else _part(made, sizes(each.groups), each.items)
        )
    return Kernel(
        "k_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in kernel.sym_name.data),
        tensors,
        tuple(memory for made in trees for memory in made.local),
        (*body,),
        groups=total(each.groups for each in plans),
        items=max(each.items for each in plans),
        sizes=dict(zip(map(Name, sizes.names), sizes.sizes, strict=True)),
        notes=tuple(line for each in plans for line in each.log),
    )


def _tensors(kernel: KernelOp) -> tuple[Memory, ...]:
    """Return the arrays that are a kernel's arguments: its tensors and, if it checks coordinates,
    the word to which it reports a failure."""
    values = [*kernel.body.block.args, *kernel.returned.values]
    found = [Memory(f"p{i}", element_of(v.type).name, "global") for i, v in enumerate(values)]
    checks = any(isinstance(op, ExtractOp) for op in kernel.walk())
    return (*found, *([tree.WORD] if checks else []))


def _part(made: StatementTree, groups: Size, items: int) -> Iterator[Statement]:
    """Yield code by which the next ``groups`` work-groups of a launch run a statement, which takes
    ``items`` of their work-items."""
    own = guarded([compare("slt", ITEM, items)], [*made.statements()])
    yield Branch(compare("slt", GROUP, groups), (*own, Return()))
    yield Assign(GROUP, difference(GROUP, number(groups)))
