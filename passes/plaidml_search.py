"""Choose tile sizes for a machine whose local memory the program manages, as PlaidML does.

    %O = tile.contract + [n: 32, x: 224, y: 224, co: 64 | i: 3, j: 3, ci: 64]
           (%D[n, x + i - 1, y + j - 1, ci], %K[i, j, co, ci]) -> [n, x, y, co] {..} : ..
    ->
    %O = tile.contract + [..] (..) -> [n, x, y, co] attributes
           {tile.sizes = #tile.indices[n: 16, x: 2, y: 2, co: 32 | i: 2, j: 3, ci: 8]} {..} : ..

``docs/plaidml-search.md`` describes the model and the log.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.tile import ContractOp, Index, IndicesAttr, KernelOp
from tessella.passes.kinds import ProgramPass
from tessella.passes.plaidml.log import log_lines
from tessella.passes.plaidml.model import PlaidmlSettings, override, preset
from tessella.passes.plaidml.search import MAX_TILES, SearchResult, search
from tessella.passes.plaidml.stride_table import obstacle, stride_table, vectorize

SIZES = "tile.sizes"
"""The attribute of a statement with the index space of one of its tiles."""


@dataclass(frozen=True)
class PlaidmlSearchPass(ProgramPass):
    """Choose tile sizes by PlaidML's model of machines with program-managed local memory.

    ``hardware`` names settings; other options override single ones. ``log`` writes to stderr the
    reasoning, or the reason why a statement is left unchanged. Raises OptionError for invalid
    settings.
    """

    name = "plaidml-search"
    stages = ("tile",)

    hardware: str = "article"
    threads: int | None = None
    mem_width: int | None = None
    max_mem: int | None = None
    max_regs: int | None = None
    goal_groups: int | None = None
    goal_flops_per_byte: int | None = None
    use_global: bool | None = None
    vec_size: int | None = None
    in_turn: bool | None = None
    full: bool = False
    max_tiles: int = MAX_TILES
    log: bool = True

    @property
    def settings(self) -> PlaidmlSettings:
        given = {field.name: getattr(self, field.name) for field in fields(PlaidmlSettings)}
        return override(preset(self.hardware), **given)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                for name, statement in _statements(kernel):
                    found = self._search(statement, settings)
                    if isinstance(found, SearchResult):
                        statement.attributes[SIZES] = tile_space(statement, found)
                        self._write(log_lines(statement, kernel.sym_name.data, found))
                    else:
                        where = f"{name} of @{kernel.sym_name.data}"
                        self._write([f"remark: {self.name} skips {where}: {found}"])

    def _search(self, op: ContractOp, settings: PlaidmlSettings) -> SearchResult | str:
        """Return the result of the search for a statement's tile, or the reason why there is
        none."""
        if reason := obstacle(op):
            return reason
        table = vectorize(stride_table(op), settings.vec_size)
        for column in table.columns:
            if column.step_bytes > settings.mem_width:
                return f"{column.step_bytes} bytes of {column.tensor} do not fit into mem-width"
        found = search(table, settings, full=self.full, max_tiles=self.max_tiles)
        return found if found.score > 0 else "no tile fits into max-mem and max-regs"

    def _write(self, lines: Iterable[str]) -> None:
        if self.log:
            sys.stderr.writelines(f"{line}\n" for line in lines)


def _statements(kernel: KernelOp) -> Iterator[tuple[str, ContractOp]]:
    """Yield the kernel's statements, each with the name of its result, or its number if the result
    has no name."""
    for number, op in enumerate(kernel.statements, 1):
        yield f"%{op.res.name_hint}" if op.res.name_hint else f"statement {number}", op


def tile_space(op: ContractOp, found: SearchResult) -> IndicesAttr:
    """Return the statement's indices, each with its number of values in the chosen tile."""
    table = found.table
    steps = zip(table.names, found.chosen, table.lanes, strict=True)
    sizes = {name: size * lanes for name, size, lanes in steps}
    return IndicesAttr(tuple(Index(i.name, sizes.get(i.name, 1), i.reduced) for i in op.loop_list))
