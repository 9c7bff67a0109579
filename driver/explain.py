"""Which kernel runs each op, and where: read from the `placed` stage, or from what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tessella.dialects.graph import main_function
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.place import PlaceAttr, RelayoutOp, place_of
from tessella.dialects.tile import KernelOp
from tessella.lowering.nn_to_tile import NODES

Entry = dict[str, str | int]

DERIVED = (
    "The program was loaded from the stage {stage!r}, which no longer knows its ops: "
    "these are the kernels of its nodes."
)


@dataclass(frozen=True)
class Explanation:
    """One entry for each op: ``op node kernel place group`` (ops of a group run as one kernel)."""

    ops: list[Entry]
    note: str = ""
    """What is missing from the explanation, if anything."""

    def json(self) -> str:
        """The entries as JSON: ``{"ops": [...]}``, with ``"note"`` where there is one."""
        note = {"note": self.note} if self.note else {}
        return json.dumps({"ops": self.ops, **note}, indent=2)

    def __str__(self) -> str:
        header = ("op", "node", "kernel", "place", "group")
        rows = [header, *(tuple(str(entry[k]) for k in header) for entry in self.ops)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        table = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self.note, *table] if self.note else table)


def explain(stages: Mapping[str, ModuleOp]) -> Explanation:
    """The explanation of a program from what it was at its stages.

    Without the `placed` stage, kernels are all that is known: an entry for each node of each.
    """
    if "placed" in stages:
        return Explanation(list(_placed(stages["placed"])))
    stage = next(iter(stages))
    return Explanation(list(_kernels(stages[stage])), DERIVED.format(stage=stage))


def _placed(module: ModuleOp) -> Iterator[Entry]:
    for group, outer in enumerate(main_function(module).body.block.ops):
        for op in list(outer.body.block.ops) if isinstance(outer, FusedOp) else [outer]:
            if isinstance(op, RelayoutOp):
                yield _entry(op, "", "relayout", group)
            elif isinstance(op, NnOp) and not isinstance(op, ConstantOp):
                yield _entry(op, op.node, op.kernel or "", group)


def _entry(op: Operation, node: str, kernel: str, group: int) -> Entry:
    return _row(op.name, node, kernel, place_of(op.results[0].type), group)


def _row(op: str, node: str, kernel: str, place: PlaceAttr | None, group: int) -> Entry:
    text = str(place) if place is not None else ""
    return {"op": op, "node": node, "kernel": kernel, "place": text, "group": group}


def _kernels(module: ModuleOp) -> Iterator[Entry]:
    """Kernels with the nodes they compute, then the ops that run in NumPy."""
    kernels = [op for op in module.body.block.ops if NODES in op.attributes]
    for group, op in enumerate(kernels):
        nodes = op.attributes[NODES]
        if isinstance(op, KernelOp | FuncOp) and isinstance(nodes, ArrayAttr):
            outputs = op.function_type.outputs.data
            place = place_of(outputs[0]) if outputs else None
            for node in (n.data for n in nodes if isinstance(n, StringAttr)):
                yield _row("", node, op.sym_name.data, place, group)
    host = [op for op in main_function(module).body.block.ops if isinstance(op, NnOp)]
    for group, op in enumerate(host, len(kernels)):
        if not isinstance(op, ConstantOp):
            yield _entry(op, op.node, op.kernel or "", group)
