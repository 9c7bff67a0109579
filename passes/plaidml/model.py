"""The cost of a tile on a machine whose local memory the program manages, such as a GPU.

The model is PlaidML's. Each group of threads works on one tile of the output. In each step it loads
tiles of the inputs into local memory and accumulates. A tile is good if it does enough arithmetic
for each byte moved, if there are enough groups, and if all threads of a group have work. Exceeding
these goals does not raise the score, so many tiles share the best score.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod

from tessella.passes.plaidml.out_plan import OutPlan
from tessella.passes.plaidml.read_plan import ReadPlan
from tessella.passes.plaidml.stride_table import StrideTable
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean

Tile = tuple[int, ...]
"""The size of a tile along each index of a stride table."""

SUMS_IN_TURN = 4
"""The number of outputs of a thread that keep a core busy which runs the threads in turn: an
addition takes four cycles, and one can begin in each."""

OVER = -1.0
"""The score of a tile that the machine cannot hold."""


@dataclass(frozen=True)
class PlaidmlSettings:
    """The properties of a machine in PlaidML's model. Raises OptionError for invalid numbers."""

    threads: int
    """Threads of one group."""
    mem_width: int
    """Bytes that one access to global memory moves."""
    max_mem: int
    """Bytes of local memory for one group."""
    max_regs: int
    """Bytes of registers for a group's accumulators."""
    goal_groups: int
    """The number of groups that keeps the machine busy."""
    goal_flops_per_byte: int
    """Operations per byte of global memory that hide its latency."""
    use_global: bool = False
    """True if inputs are read in place, as there is no local memory worth a copy."""
    vec_size: int = 1
    """Elements of the vectors that threads work on."""
    in_turn: bool = False
    """True if one core runs the threads of a group in turn. Threads that share an output then save
    no time, and a thread with several outputs hides the latency of its sums. PlaidML's settings for
    CPUs have one thread instead."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool) and not 0 < int(value) < 1 << 63:
                name = field.name.replace("_", "-")
                raise OptionError(
                    f"{name} is out of range", expected="1 to 2^63 - 1", found=str(value)
                )


PRESETS = {
    # threads, mem_width, max_mem, max_regs, goal_groups, goal_flops_per_byte
    "article": PlaidmlSettings(256, 32, 16384, 16384, 20, 20),
    "amd": PlaidmlSettings(256, 128, 32768, 16384, 16, 50),
    "nvidia": PlaidmlSettings(256, 64, 15360, 32768, 16, 46),
    "intel-gpu": PlaidmlSettings(64, 256, 7300, 4000, 1, 50),
    "mali-t760": PlaidmlSettings(128, 16, 16000, 16000, 32, 50, use_global=True, vec_size=2),
    "cpu": PlaidmlSettings(1, 64, 32768, 32, 1, 1, use_global=True, vec_size=4),
}
"""PlaidML 0.x's settings (``plaidml/configs/experimental.json``; ``cpu``: ``tile/hal/cpu``).

`article`: the settings that follow from the log in PlaidML's article on kernel generation.
`mali-t760`: PlaidML's goals for unnamed OpenCL devices, with 8 compute units.
"""


def preset(name: str) -> PlaidmlSettings:
    """Return the settings with that name. Raises OptionError, which lists the known names."""
    if name not in PRESETS:
        raise OptionError(
            f"unknown hardware {name!r}",
            expected=f"one of {', '.join(PRESETS)}",
            found=repr(name),
            hint=did_you_mean(name.lower(), PRESETS),
        )
    return PRESETS[name]


def override(settings: PlaidmlSettings, **values: int | bool | None) -> PlaidmlSettings:
    """Return the settings with values replaced by the arguments that are not None."""
    return replace(settings, **{k: v for k, v in values.items() if v is not None})


@dataclass(frozen=True)
class TileStats:
    """The statistics and score of a tile, computed on demand. The abbreviations are PlaidML's."""

    table: StrideTable
    tile: Tile
    settings: PlaidmlSettings

    @cached_property
    def _out_plan(self) -> OutPlan:
        return OutPlan.of(self.table.out, self.tile, self.settings.threads, self.settings.mem_width)

    @cached_property
    def read_plans(self) -> tuple[ReadPlan, ...]:
        """The plan for loading the tile of each input into local memory."""
        return tuple(ReadPlan.of(self.table.names, c.strides, self.tile) for c in self.table.inputs)

    @property
    def true_ops(self) -> int:
        """The number of operations of the whole statement, on elements (``to`` in the log)."""
        return prod(self.table.ranges) * self.table.point_ops * self.table.out.lanes

    @cached_property
    def work_groups(self) -> int:
        """The number of tiles of the output, one for each work group (``wg`` in the log). Tiles at
        the edges count as whole."""
        return prod(-(-self.table.ranges[i] // self.tile[i]) for i in self.table.free)

    @cached_property
    def inner_loops(self) -> int:
        """The number of tiles of the index space for each tile of the output (``il`` in the
        log)."""
        ranges = zip(self.table.ranges, self.tile, strict=True)
        return prod(-(-n // size) for n, size in ranges) // self.work_groups

    @cached_property
    def shared_mem(self) -> int:
        """Bytes of local memory of a group (``sm`` in the log): a tile of each input, and one
        element for each thread if threads add up their sums."""
        held = 0 if self.settings.use_global else self._held_inputs
        return held + (self.settings.threads * self.table.out.step_bytes if self.rollups else 0)

    @property
    def _held_inputs(self) -> int:
        plans = zip(self.table.inputs, self.read_plans, strict=True)
        return sum(plan.size * column.step_bytes for column, plan in plans)

    @cached_property
    def out_regs(self) -> int:
        """Bytes of registers of a group's accumulators, those of idle threads included (``or`` in
        the log)."""
        return self.settings.threads * self._out_plan.elements * self.table.out.step_bytes

    @cached_property
    def mem_read(self) -> int:
        """Bytes that a group reads in one step of its loop: lines of the inputs (``mr`` in the
        log). Post inputs are included, an element for each write of the output."""
        width = self.settings.mem_width
        lines = sum(
            plan.loads(width // column.step_bytes)
            for column, plan in zip(self.table.inputs, self.read_plans, strict=True)
        )
        post = sum(c.element_bytes for c in self.table.post_inputs)
        return lines * width + self._out_plan.lines * post

    @property
    def mem_write(self) -> int:
        """Bytes that a group writes at its end: a line for each write of the output (``mw`` in the
        log)."""
        return self._out_plan.lines * self.settings.mem_width

    @property
    def operations(self) -> int:
        """The number of points of a tile that are processed at a time (``op`` in the log)."""
        return min(self.settings.threads, prod(self.tile))

    @cached_property
    def rollups(self) -> int:
        """The number of steps in which threads that share an output element add up their sums, each
        halving their number (``rp`` in the log)."""
        outputs = prod(self.tile[i] for i in self.table.free)
        return (-(-self.operations // outputs) - 1).bit_length()

    @property
    def threads_used(self) -> int:
        """The number of threads that have work in the loop or at the output (``tu`` in the log). If
        one core runs the threads in turn, only threads with enough outputs to hide the latency of
        sums count."""
        if not self.settings.in_turn:
            return max(self.operations, prod(self._out_plan.threads))
        outputs = prod(self.tile[i] for i in self.table.free)
        return min(self.settings.threads, -(-outputs // SUMS_IN_TURN))

    @property
    def over(self) -> str | None:
        """The resource of the machine that the tile exceeds: `memory` or `regs`; None if it
        fits."""
        if self.shared_mem > self.settings.max_mem:
            return "memory"
        return "regs" if self.out_regs > self.settings.max_regs else None

    @property
    def bytes(self) -> int:
        """Bytes that the whole statement moves from and to global memory."""
        return self.work_groups * (self.inner_loops * self.mem_read + self.mem_write)

    @property
    def flops_per_byte(self) -> float:
        return self.true_ops / self.bytes

    @property
    def occupancy(self) -> int:
        """The number of work groups, or the goal for this number if that is smaller."""
        return min(self.work_groups, self.settings.goal_groups)

    @property
    def roof_ratio(self) -> float:
        """The fraction of the goal for operations per byte that is reached."""
        goal = self.settings.goal_flops_per_byte
        return min(self.flops_per_byte, goal) / goal

    @property
    def occ_ratio(self) -> float:
        """The fraction of the goal for groups that is reached."""
        return self.occupancy / self.settings.goal_groups

    @property
    def thread_ratio(self) -> float:
        """The fraction of a group's threads that have work."""
        return self.threads_used / self.settings.threads

    @property
    def score(self) -> float:
        """The score of the tile, from 0 to 1, the higher the better; ``OVER`` if the tile does not
        fit."""
        if self.over is not None:
            return OVER
        return self.roof_ratio * self.occ_ratio * self.thread_ratio
