"""Print the graph of a program for graphviz to stderr, like the pass of the same name in mlir-opt.

%1 = nn.relu %x {node = "relu1"} : tensor<4xf32>
%2 = nn.exp %1 : tensor<4xf32>
->
the same, and on stderr

digraph program {
  node [shape=box]
  op0 [label="nn.relu\\nrelu1"]
  op1 [label="nn.exp"]
  op0 -> op1 [label="tensor<4xf32>"]
}

A box stands for an op, a frame for the regions of an op, and an edge for a value. Arguments of
regions have boxes too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn.core import NnOp
from tessella.passes.kinds import DebugPass
from tessella.support.dot import quoted


@dataclass(frozen=True)
class ViewOpGraphPass(DebugPass):
    """Print the graph of a program in the language of graphviz."""

    name = "view-op-graph"

    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        sys.stderr.writelines(f"{line}\n" for line in _OpGraph().lines(module))


@dataclass
class _OpGraph:
    """A writer of the graph, which numbers the boxes in the order in which it draws them."""

    boxes: dict[SSAValue | Operation, str] = field(default_factory=dict[SSAValue | Operation, str])

    def lines(self, module: ModuleOp) -> Iterator[str]:
        """Yield the lines of the graph of a module."""
        yield "digraph program {"
        yield "  node [shape=box]"
        yield from self._inside(module, "  ")
        for op in list(self.boxes):
            if isinstance(op, Operation):
                yield from self._edges(op)
        yield "}"

    def _inside(self, op: Operation, indent: str) -> Iterator[str]:
        """Yield the boxes of an op's regions."""
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.args:
                yield self._box(
                    argument, argument.name_hint or f"argument {argument.index}", indent
                )
            for inner in block.ops:
                yield from self._op(inner, indent)

    def _op(self, op: Operation, indent: str) -> Iterator[str]:
        yield self._box(op, _label(op), indent)
        if op.regions:
            yield f"{indent}subgraph cluster_{self.boxes[op]} {{"
            yield from self._inside(op, f"{indent}  ")
            yield f"{indent}}}"

    def _box(self, key: SSAValue | Operation, label: str, indent: str) -> str:
        name = self.boxes[key] = f"op{len(self.boxes)}"
        return f"{indent}{name} [label={quoted(label)}]"

    def _edges(self, op: Operation) -> Iterator[str]:
        """Yield an edge for each operand of an op, from its producer."""
        for value in op.operands:
            owner = value.owner
            source = self.boxes[owner if isinstance(owner, Operation) else value]
            yield f"  {source} -> {self.boxes[op]} [label={quoted(str(value.type))}]"


def _label(op: Operation) -> str:
    """Return the label of an op: its name and, in further lines, the names of its node and its
    kernel."""
    if not isinstance(op, NnOp):
        return op.name
    node = () if op.node == op.name else (op.node,)
    kernel = () if op.kernel is None else (f"kernel {op.kernel}",)
    return "\n".join((op.name, *node, *kernel))
