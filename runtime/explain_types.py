"""The objects in the JSON of an explanation."""

from __future__ import annotations

from typing import TypedDict


class Rejected(TypedDict):
    """A kernel at a place (device, precision and layout) that could have run an op, but was not
    picked, and the reason."""

    kernel: str
    place: str
    reason: str


class RunnerUp(TypedDict):
    """The fastest candidate for an op among those that were not picked, with its estimated
    seconds."""

    kernel: str
    place: str
    estimate: float


class OpEntry(TypedDict):
    """An op; the ops of a ``group`` run as one kernel.

    ``estimate`` is the time of the op alone, in seconds, and ``saved`` the seconds of it that are
    saved because an operand stays in registers. ``native`` is true if machine code runs the op,
    generated or from a library; otherwise NumPy runs it. ``storage`` names the element types read
    and written, ``u8 i8 -> i32``, and ``arithmetic`` the element type of the kernel's arithmetic
    and accumulators; both are empty if unknown. ``measured`` is whether the estimate is a time from
    the database.
    """

    op: str
    node: str
    kernel: str
    native: bool
    place: str
    storage: str
    arithmetic: str
    estimate: float | None
    measured: bool
    saved: float
    group: int
    fallback: str | None
    runner_up: RunnerUp | None
    rejected: list[Rejected]


class Conversion(TypedDict):
    """A conversion of a value to another place (device, precision and layout).

    ``value`` is the node that produced the value, or the value's name; ``source`` and ``target``
    are the places, ``bytes`` the size before the conversion, and ``estimate`` the estimated
    seconds. ``readers`` are the nodes that read the value through this and further conversions;
    ``return`` stands for a result of the program.
    """

    op: str
    value: str
    source: str
    target: str
    bytes: int
    estimate: float
    readers: list[str]


class Fusion(TypedDict):
    """A fused op. ``consumed`` are the ops that it replaces, each written ``nn.erf@node``."""

    op: str
    node: str
    pattern: str
    consumed: list[str]


class RefusedFusion(Fusion):
    """A fusion that was possible, but not made, and the reason."""

    reason: str


class Regret(TypedDict):
    """A picked kernel that is not the ``fastest`` candidate for some ``sizes``.

    The kernel is the one of least regret over the ranges of symbolic sizes. ``regret`` is the ratio
    of its estimated time to that of the fastest candidate.
    """

    op: str
    node: str
    kernel: str
    sizes: str
    fastest: str
    regret: float


class PythonStep(TypedDict):
    """A step after a graph break: a NumPy function, or a loop over subprograms.

    ``native`` marks a step that only trims computed arrays to their size.
    """

    op: str
    node: str
    native: bool


class Pick(TypedDict):
    """A record of how the kernels of a program were picked.

    ``exact`` is whether no other choice has a lower estimate; None if the strategy does not aim at
    that.
    """

    strategy: str
    exact: bool | None
    places: list[str]
    target: str
    database: str
    """The file of measured times that replace estimates; empty without one."""
    widened: list[str]
    """The narrow float types in the requested places that the target cannot multiply directly: they
    are widened to f32 first."""


class Barrier(TypedDict):
    """A point where threads wait for each other: the kernel that needs other threads' results, with
    its nodes."""

    before: str
    nodes: list[str]
    times: int
    """The number of times that a call executes the barrier: more than 1 in a loop."""


class Threads(TypedDict):
    """The division of a program among threads: the number of kernel calls, the number of calls that
    threads divide, and the barriers.

    The numbers do not depend on the number of threads.
    """

    calls: int
    divided: int
    barriers: list[Barrier]


def duration(seconds: float | None) -> str:
    """Format a time, such as `12.3 us`; empty if unknown."""
    if seconds is None:
        return ""
    units = (("s", 1.0), ("ms", 1e-3))
    unit, scale = next(((u, s) for u, s in units if seconds >= s), ("us", 1e-6))
    return f"{seconds / scale:.3g} {unit}"
