"""The native code of ``runtime.pool``: how threads divide the phases of runs.

    grow(team, size)         starts helpers until there are so many
    run(team, segment, ..)   runs a segment with them
    launch(context, phase, args)   what a context's slot ``launch`` points to: runs a phase

A phase is code for (share, shares). Its caller offers the shares but the first, which is its own,
computes that one, then those that nobody has begun, and waits for the others. So nobody waits for a
thread that is asleep or has no core; a helper that has lost its core delays the share it holds.

A slot says what became of a share: offered, taken, done. The three rise from phase to phase, and a
share is taken by one compare-and-swap of the value of its phase: a helper that is late, perhaps by
many runs, takes nothing of them. It reads the phase only once it has taken a share, as the phase
cannot end before that share is done. Records of runs are never freed.

A helper serves one slot of one record at a time. It is recruited by the caller of a phase, and
leaves when it has waited too long, or when its core is needed: cores are divided between the runs
that there are. While it waits it also takes shares of helpers that are late.

Runs have their turn in the order in which they come: as many go on at a time as there are cores,
and one more, so that no core is idle between two of them. If none ends for long, others go on out
of turn.

Where helpers lose their cores, waiting for them costs more than they save. A run that shows it
halves the shares of those that follow (``level``) for a while, which doubles each time. A helper
that finds itself on its caller's core moves to an idle one; if there is none it leaves, and the run
has half its shares for a moment.
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
"""Nanoseconds after which a run starts out of order if none has ended meanwhile."""

PAUSES = 8_000_000, 1_000_000_000
"""The least and the longest time for which runs are narrowed, in nanoseconds."""

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
    """Return the pool's LLVM module."""
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
