"""The texts of kernels at each stage, each line with the line of the previous stage from which it
was lowered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from tessella.codegen.debug_lines import assembly_lines
from tessella.codegen.emit import traced_kernel
from tessella.dialects.graph import CompileContext
from tessella.dialects.printing import lines_of
from tessella.dialects.rt import KernelOp as LoweredKernel
from tessella.dialects.tile import KernelOp
from tessella.driver.report.data import KernelData, Pane
from tessella.driver.report.measured import is_piece
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.targets import Target

MOST_LINES = 20_000
"""The most lines of LLVM IR of a kernel that a report has."""
_TOO_LONG = "its LLVM IR has {lines} lines, more than the {most} that a report shows"


@dataclass
class _Lines:
    """The lines of a pane that is being written."""

    lines: list[str] = field(default_factory=list[str])
    heads: list[int] = field(default_factory=list[int])
    origins: list[int] = field(default_factory=list[int])

    def add(self, line: str, head: int, origin: int) -> None:
        self.lines.append(line)
        self.heads.append(head)
        self.origins.append(origin)

    def pane(self) -> Pane:
        return Pane("\n".join(self.lines), self.heads, self.origins)


def kernels_of(module: ModuleOp, target: Target) -> Iterator[KernelData]:
    """Yield the kernels of a program at the stage `tile`, in the order of the module."""
    module = module.clone()
    tiles = {op.sym_name.data: op for op in module.ops if isinstance(op, KernelOp)}
    panes = {name: _numbered(kernel) for name, kernel in tiles.items()}
    nodes = {name: [n.data for n in kernel.nodes or ()] for name, kernel in tiles.items()}
    ConvertTileToLoopsPass().apply(CompileContext(), module)
    lowered = [op for op in module.ops if isinstance(op, LoweredKernel)]
    for name, first in panes.items():
        pieces = [op for op in lowered if is_piece(op.sym_name.data, name)]
        yield KernelData(name, nodes[name], *_panes(first, pieces, target))


def _numbered(kernel: KernelOp) -> Pane:
    """Return the text of a kernel. Each op in it gets the number of its line as its location, which
    the ops that it is lowered to inherit."""
    made, heads = _Lines(), dict[Operation, int]()
    for number, (line, op) in enumerate(lines_of(kernel)):
        if op is not None and op is not kernel and op not in heads:
            heads[op] = number
            place = StringAttr(kernel.sym_name.data), IntAttr(number), IntAttr(0)
            op.location = FileLineColLoc(*place)
        made.add(line, heads.get(op, -1) if op is not None else -1, -1)
    return Pane("\n".join(made.lines), made.heads, [])


def _panes(
    first: Pane, pieces: Sequence[LoweredKernel], target: Target
) -> tuple[Mapping[str, Pane], str]:
    """Return the panes of a kernel that was lowered to ``pieces``, and the reason why one is
    missing."""
    loops, llvm, asm = _Lines(), _Lines(), _Lines()
    heads: dict[Operation, int] = {}
    for piece in pieces:
        for line, op in lines_of(piece):
            if op is not None:
                heads.setdefault(op, len(loops.lines))
            loops.add(line, heads.get(op, -1) if op is not None else -1, _line_of(op))
    for piece in pieces:
        text, ops = traced_kernel(piece, target)
        if len(llvm.lines) + len(ops) > MOST_LINES:
            note = _TOO_LONG.format(lines=len(llvm.lines) + len(ops), most=MOST_LINES)
            return {"tile": first, "loops": loops.pane()}, note
        start = len(llvm.lines)
        for number, (line, op) in enumerate(zip(text.split("\n"), ops, strict=True), start):
            llvm.add(line, number, heads.get(op, -1) if op is not None else -1)
        for number, (line, of) in enumerate(assembly_lines(text, target), len(asm.lines)):
            asm.add(line, number, of + start if of >= 0 else of)
    return {"tile": first, "loops": loops.pane(), "llvm": llvm.pane(), "asm": asm.pane()}, ""


def _line_of(op: Operation | None) -> int:
    """Return the number of the line that an op was lowered from; -1 if it is not known."""
    place = op.location if op is not None else None
    return place.line.data if isinstance(place, FileLineColLoc) else -1
