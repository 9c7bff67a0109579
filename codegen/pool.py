"""The native code of ``runtime.pool``, which divides the phases of runs among threads.

    grow(team, size)         starts helpers until there are so many
    run(team, segment, ..)   runs a segment with them
    launch(context, phase, args)   what a context's slot ``launch`` points to: runs a phase

A phase is a function of (share, shares). Its caller offers all shares except the first, computes
the first one itself, then every share that nobody has begun, and waits for the others. No thread
therefore waits for a helper that is asleep or has no core; a helper that loses its core delays only
the share that it holds.

A slot records the state of a share: offered, taken or done. These values increase from phase to
phase, and a thread takes a share by one compare-and-swap of the value of its phase, so that a
helper that is late, perhaps by many runs, cannot take a share of a later phase. A helper reads the
phase only after it has taken a share, as the phase cannot end before that share is done. Records of
runs are never freed.

A helper serves one slot of one record at a time. The caller of a phase recruits it. It leaves when
it has waited too long, or when its core is needed, as the current runs divide the cores among them.
While it waits, it also takes shares of helpers that are late.

Runs start in the order of their arrival. As many run at a time as there are cores, and one more, so
that no core is idle between two runs. If no run ends for a long time, others start out of order.

If helpers lose their cores, waiting for them can cost more than they save. A run that observes this
halves the number of shares of later runs (``level``) for some time, which doubles with each
observation. A helper that finds itself on its caller's core moves to an idle core. If there is
none, it leaves, and the run has half its shares for a short time.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from string import Template

from tessella.codegen import kernel_cache
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.module_text import module_text
from tessella.codegen.poolir.helpers import HELPERS
from tessella.codegen.poolir.runs import ELASTIC, ENTRY, TURNS
from tessella.codegen.poolir.shares import MEMORY, SHARES, WAITING
from tessella.runtime import pool
from tessella.targets import Target
from tessella.targets.table import family_of

LOOKS = 64
"""Spins before a thread reads the clock."""

BETWEEN_RUNS = 50_000
"""Spin budget of a helper between runs, in nanoseconds.

It is about the time of a sleep and a wake-up, which makes spinning cost at most about twice the
better choice.
"""

IN_A_RUN = 1_000_000
"""Spin budget of a helper between phases of a run, in nanoseconds."""

FOR_A_SHARE = 100_000
"""Spin budget of a caller for the end of a share, in nanoseconds.

Shares take about equally long. A helper that takes much longer has probably lost its core, and may
get the caller's.
"""

TURN = 100_000_000
"""The nanoseconds without an end of a run after which a waiting run starts out of order."""

PAUSES = 8_000_000, 1_000_000_000
"""The shortest and the longest time, in nanoseconds, for which runs have fewer shares after helpers
lost their cores."""

BACKOFF = 200_000
"""Nanoseconds for which a run has fewer shares after a helper shared its caller's core while no
other was idle; the time doubles on each repetition.

Threads of another library may spin for a while after a call, and the scheduler then places a helper
beside its caller.
"""

CROWDED = 10_000_000
"""Nanoseconds for which runs reserve cores for recent callers: a caller in a loop is away only
briefly."""

NAME = "tessella.pool"
"""The pool's module name in a linked program."""

_CONSTANTS: Mapping[str, object] = {
    "looks": LOOKS,
    "between": BETWEEN_RUNS,
    "within": IN_A_RUN,
    "for_a_share": FOR_A_SHARE,
    "longest_turn": TURN,
    "backoff": BACKOFF,
    "crowded_for": CROWDED,
    "least_pause": PAUSES[0],
    "longest_pause": PAUSES[1],
    # Futex operations, for memory of one process.
    "sleep": 128,
    "wake": 129,
    "everyone": 2**31 - 1,
    # CLOCK_MONOTONIC, SIG_SETMASK, O_CLOEXEC
    "monotonic": 1,
    "setmask": 2,
    "close_on_exec": 0o2000000,
    "line": pool.LINE,
    "most": pool.MOST,
    "offered": pool.OFFERED,
    "done": pool.DONE,
    "ring": pool.RING,
    "entered": pool.ENTERED,
    "left_runs": pool.LEFT,
    "turns": pool.TURNS,
    "helpers": pool.HELPERS,
    "records": pool.RECORDS,
    "record_bytes": pool.RECORD_BYTES,
    # Offsets in a helper's record.
    "asleep": 8,
    "team": 16,
    "arguments_bytes": 8 * len(pool.ARGUMENTS),
    "grow": pool.GROW,
    "enter": pool.ENTER,
}


@functools.cache
def pool_object(target: Target) -> bytes:
    """Return the pool's object for a target: compiled once, then cached on disk."""
    text, machine = emit_pool(target), Machine.of(target)
    found = kernel_cache.get(text, machine)
    if found is None:
        found = emit_object(text, machine)
        kernel_cache.put(text, machine, found)
    return found


def emit_pool(target: Target) -> str:
    """Return the LLVM module with the native functions of the pool of threads."""
    family = family_of(target)
    values: dict[str, object] = {
        **_CONSTANTS,
        "pause": family.pause,
        "futex": family.futex,
        **_offsets("team", 0, pool.TABLE),
        **_offsets("record", 0, pool.RECORD),
        **_offsets("elastic", pool.ELASTIC_AT, pool.ELASTIC),
        **_offsets("slot", 0, pool.SLOT),
        **_offsets("context", 0, pool.CONTEXT),
    }
    text = "".join(Template(part).substitute(values) for part in _PARTS)
    return module_text(target, text.splitlines())


def _offsets(prefix: str, start: int, names: Sequence[str]) -> Mapping[str, int]:
    return {f"{prefix}_{name}": start + 8 * i for i, name in enumerate(names)}


_PARTS = (MEMORY, WAITING, SHARES, HELPERS, TURNS, ELASTIC, ENTRY)
