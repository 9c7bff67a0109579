"""Which kernel runs each op, and where: read from the `placed` stage."""

from __future__ import annotations

import json
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.graph import main_function
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.place import RelayoutOp, place_of


@dataclass(frozen=True)
class Explanation:
    """One entry for each op: ``op``, ``node``, ``kernel``, ``place``, ``group`` (ops of a group run as one kernel)."""

    ops: list[dict[str, str | int]]

    def json(self) -> str:
        """The entries as JSON: ``{"ops": [...]}``."""
        return json.dumps({"ops": self.ops}, indent=2)

    def __str__(self) -> str:
        header = ("op", "node", "kernel", "place", "group")
        rows = [header, *(tuple(str(entry[k]) for k in header) for entry in self.ops)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def explain(module: ModuleOp) -> Explanation:
    """The explanation of a module at the `placed` stage."""
    ops: list[dict[str, str | int]] = []
    for group, outer in enumerate(main_function(module).body.block.ops):
        inner = list(outer.body.block.ops) if isinstance(outer, FusedOp) else [outer]
        for op in inner:
            if isinstance(op, RelayoutOp):
                name, node, kernel = op.name, "", "relayout"
            elif isinstance(op, NnOp) and not isinstance(op, ConstantOp):
                name, node, kernel = op.name, op.node, op.kernel or ""
            else:
                continue
            place = place_of(op.results[0].type)
            ops.append(
                {"op": name, "node": node, "kernel": kernel, "place": str(place or ""), "group": group}
            )
    return Explanation(ops)
