"""What an explanation holds: the objects of its JSON."""

from __future__ import annotations

from typing import TypedDict


class Rejected(TypedDict):
    """A candidate that was not picked."""

    kernel: str
    place: str
    reason: str


class RunnerUp(TypedDict):
    """The candidate that would take least time among those that were not picked."""

    kernel: str
    place: str
    cost: float


class Entry(TypedDict):
    """An op: ops of a ``group`` run as one kernel; ``cost`` is in seconds, of the op alone, and
    ``saved`` what of that is saved as it takes its operand in registers. ``native`` is whether it
    is machine code, generated or a library's: NumPy runs it otherwise. ``storage`` names the
    elements that are read and written, ``u8 i8 -> i32``, and ``arithmetic`` the one that the kernel
    computes and accumulates in; both are empty where that is not known. ``measured`` is whether the
    cost is a time from the database, and no estimate."""

    op: str
    node: str
    kernel: str
    native: bool
    place: str
    storage: str
    arithmetic: str
    cost: float | None
    measured: bool
    saved: float
    group: int
    fallback: str | None
    runner_up: RunnerUp | None
    rejected: list[Rejected]


Conversion = TypedDict(
    "Conversion",
    {
        "op": str,
        "value": str,
        "from": str,
        "to": str,
        "bytes": int,
        "cost": float,
        "readers": list[str],
    },
)
"""A conversion of a value: the node that made it or its name, its places, its bytes before, and the
nodes that read it through this and further conversions; a result of the program is read by
``return``."""


class Fusion(TypedDict):
    """An op that stands for others, each written ``nn.erf@node``."""

    op: str
    node: str
    pattern: str
    consumed: list[str]


class PythonStep(TypedDict):
    """A step after a graph break, which is a function in NumPy, or a loop over subprograms; native
    is one that only cuts what the program has computed to its size."""

    op: str
    node: str
    native: bool


class Pick(TypedDict):
    """How kernels were picked; ``exact`` is whether no other choice is estimated to take less time,
    and None where that was not the aim."""

    strategy: str
    exact: bool | None
    places: list[str]
    target: str
    database: str
    """The file of the times that count instead of estimates; empty without one."""
    widened: list[str]
    """The narrow floats that places name, and that the target multiplies as f32 alone."""


class Barrier(TypedDict):
    """Where threads wait for each other: the kernel that needs what others have written, with the
    nodes that it computes."""

    before: str
    nodes: list[str]
    times: int
    """How often in a call: more than once in a loop."""


class Threads(TypedDict):
    """How many times kernels are called, how many of these calls are divided between threads, and
    the barriers. They are the same for any number of threads."""

    calls: int
    divided: int
    barriers: list[Barrier]


def duration(seconds: float | None) -> str:
    """A time as people read it, such as `12.3 us`; empty where it is not known."""
    if seconds is None:
        return ""
    units = (("s", 1.0), ("ms", 1e-3))
    unit, scale = next(((u, s) for u, s in units if seconds >= s), ("us", 1e-6))
    return f"{seconds / scale:.3g} {unit}"
