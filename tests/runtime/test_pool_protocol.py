"""The protocol of phases, shares and turns in all interleavings of a few threads.

A thread is a list of steps, each of which touches memory once, as an instruction of the pool's code
does (``codegen.poolir``). A step returns the number of the next one, or None while it sleeps. All
states that any order of steps leads to are tried. Broken versions show that what is checked can
fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tessella.runtime.pool import DONE, OFFERED, TAKEN

Memory = dict[Any, Any]
Step = Callable[[Memory, Memory], int | None]
"""A step sees the memory of all threads, and the registers of its own."""
Threads = Sequence[Sequence[Step]]
Values = tuple[tuple[Any, Any], ...]
State = tuple[Values, tuple[tuple[int, Values], ...]]
"""Memory, and where each thread is, with its registers."""

PHASES = 2
END = -1


class WrongError(Exception):
    """A state that must not be."""


def explore(threads: Threads, memory: Mapping[Any, Any]) -> int:
    """Try all orders of steps. Returns the number of states; raises WrongError for one in which a
    thread is not over and none can go on."""
    first: State = (_frozen(memory), tuple((0, ()) for _ in threads))
    known: set[State] = {first}
    stack: list[State] = [first]
    while stack:
        shared, states = stack.pop()
        moved = False
        for number, (at, registers) in enumerate(states):
            if at == END:
                continue
            new, own = dict(shared), dict(registers)
            following = threads[number][at](new, own)
            if following is None:
                continue
            moved = True
            state = (following, _frozen(own) if following != END else ())
            found: State = (_frozen(new), (*states[:number], state, *states[number + 1 :]))
            if found not in known:
                known.add(found)
                stack.append(found)
        if not moved and any(at != END for at, _ in states):
            raise WrongError(f"nobody goes on: {shared}")
    return len(known)


def _frozen(values: Mapping[Any, Any]) -> Values:
    return tuple(sorted(values.items(), key=repr))


class Program:
    """Steps with labels. A test touches registers alone, and follows a step at once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.tests: dict[int, tuple[Callable[[Memory], bool], str]] = {}
        self.labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self.labels[name] = len(self.steps)

    def do(self, work: Callable[[Memory, Memory], object], to: str | None = None) -> None:
        """A step, after which comes the next one or that of a label."""
        following = len(self.steps) + 1
        self.steps.append(lambda m, r: (work(m, r), self._next(to, following, r))[1])

    def when(self, test: Callable[[Memory], bool], to: str) -> None:
        """Go to a label after the last step if a test holds."""
        self.tests[len(self.steps)] = test, to

    def sleep(self, box: Callable[[Memory], Any], place: Callable[[Memory], Any]) -> None:
        """Sleep in the system until somebody wakes who sleeps at a place, if a box still has the
        number that was read."""
        self.do(lambda m, r: m.update({("sleeps", place(r)): m[box(r)] == r["number"]}))
        following = len(self.steps) + 1
        self.steps.append(
            lambda m, r: None if m["sleeps", place(r)] else self._next(None, following, r)
        )

    def wake(self, place: Callable[[Memory], Any]) -> None:
        """Wake who sleeps at a place."""
        self.do(lambda m, r: m.update({("sleeps", place(r)): False}))

    def _next(self, label: str | None, following: int, registers: Memory) -> int:
        at = following if label is None else self.labels[label]
        while at in self.tests:
            test, to = self.tests[at]
            if not test(registers):
                return at
            at = self.labels[to]
        return at


def initial(shares: int) -> Memory:
    """A record whose phase before the first is done."""
    memory: Memory = {"args": 0, "live": 0}
    for share in range(1, shares):
        memory |= {("slot", share): DONE, ("asleep", share): 0, ("sleeps", share): False}
    return memory


def offer(phase: int) -> int:
    """The number of a share that is offered."""
    return 4 * phase + OFFERED


def compute(memory: Memory, args: int, share: int) -> None:
    """Compute a share; WrongError if the phase has ended, or the share has been computed."""
    if memory["live"] != args:
        raise WrongError(f"share {share} of phase {args} in phase {memory['live']}")
    if memory.get(("computed", args, share)):
        raise WrongError(f"share {share} of phase {args} twice")
    memory["computed", args, share] = True


def take(p: Program, share: int, failed: str, *, hasty: bool = False, torn: bool = False) -> None:
    """Take a share whose offer is in a register, and compute it, as `compute` does."""
    slot = ("slot", share)

    def swap(m: Memory, r: Memory) -> None:
        r["ours"] = torn or m[slot] == r["offer"]
        if r["ours"]:
            m[slot] = r["offer"] - OFFERED + TAKEN

    p.do(swap)
    p.when(lambda r: not r["ours"], failed)
    if not hasty:
        p.do(lambda m, r: r.update(args=m["args"]))
    p.do(lambda m, r: compute(m, r["args"], share))
    p.do(lambda m, r: m.update({slot: r["offer"] - OFFERED + DONE}))
    p.do(lambda m, r: r.update(sleeps=m["asleep", share]))
    p.when(lambda r: not r["sleeps"], failed)
    p.wake(lambda r: share)


def caller(shares: int, *, patient: bool = True, forgets: bool = False) -> Program:
    """The phases of a run, as `launch` does them; then a look whether everything is there."""
    p = Program()
    for phase in range(1, PHASES + 1):
        p.do(lambda m, r, phase=phase: m.update(args=phase, live=phase))
        for share in range(1, shares):
            p.do(lambda m, r, s=share, n=phase: m.update({("slot", s): offer(n)}))
        p.do(lambda m, r, n=phase: compute(m, n, 0))
        for share in range(1, shares):
            name = f"others {phase} {share}"
            p.do(lambda m, r, s=share: r.update(offer=m["slot", s]))
            p.when(lambda r, n=phase: r["offer"] != offer(n), name)
            take(p, share, name)
            p.label(name)
        for share in range(1, shares):
            wait(p, share, phase, patient=patient, forgets=forgets)
        p.do(lambda m, r: m.update(live=0))
    p.do(lambda m, r: check_all(m, shares))
    return p


def check_all(memory: Memory, shares: int) -> None:
    """Check that all shares have been computed."""
    for phase in range(1, PHASES + 1):
        if any(not memory.get(("computed", phase, share)) for share in range(shares)):
            raise WrongError(f"phase {phase} lacks a share")


def wait(p: Program, share: int, phase: int, *, patient: bool, forgets: bool) -> None:
    """Sleep until a share is done, as `wait` does."""
    check, end = f"check {phase} {share}", f"end {phase} {share}"
    done = 4 * phase + DONE
    if not patient:
        return
    if not forgets:
        p.do(lambda m, r: m.update({("asleep", share): 1}))
    p.label(check)
    p.do(lambda m, r: r.update(number=m["slot", share]))
    p.when(lambda r: r["number"] >= done, end)
    p.sleep(lambda r: ("slot", share), lambda r: share)
    p.do(lambda m, r: m.update({("asleep", share): 1}), check)
    p.label(end)
    p.do(lambda m, r: m.update({("asleep", share): 0}))


def helper(*slots: int, hasty: bool = False, torn: bool = False) -> Program:
    """Looks at slots, as `serve` does; it may come at any time, even runs later, and leave whenever
    no share is offered."""
    p = Program()
    for look, slot in enumerate(slots):
        end = f"end {look}"
        if hasty:
            p.do(lambda m, r: r.update(args=m["args"]))
        p.do(lambda m, r, s=slot: r.update(offer=m["slot", s]))
        p.when(lambda r: r["offer"] % 4 != OFFERED, end)
        take(p, slot, end, hasty=hasty, torn=torn)
        p.label(end)
    return p


def ended(p: Program) -> Sequence[Step]:
    """The steps, the last of which ends the thread."""
    return [*p.steps, lambda m, r: END]


LATE = [helper(1, 1), helper(1, 1)]
"""Of two helpers for one slot, one is late, whichever it is."""


def test_each_share_is_computed_once_while_its_phase_goes_on() -> None:
    assert explore([ended(p) for p in (caller(2), helper(1, 1), helper(1))], initial(2)) > 1000


@pytest.mark.slow
def test_helpers_may_be_late() -> None:
    assert explore([ended(p) for p in (caller(2), *LATE)], initial(2)) > 10_000


@pytest.mark.slow
def test_helpers_take_the_shares_of_others() -> None:
    threads = [ended(p) for p in (caller(3), helper(1, 1, 2), helper(2, 2, 1))]
    assert explore(threads, initial(3)) > 100_000


def test_a_caller_needs_no_helper() -> None:
    """Its own steps are enough, from wherever helpers stop that hold no share."""
    explore([ended(caller(3))], initial(3))


@pytest.mark.parametrize(
    "broken, why",
    [
        ([caller(2, patient=False), *LATE], "lacks|in phase"),
        ([caller(2), helper(1, hasty=True), helper(1)], "in phase"),
        ([caller(2), helper(1, torn=True), helper(1)], "in phase|twice"),
        ([caller(2, forgets=True), *LATE], "nobody goes on"),
    ],
    ids=["no wait", "args before the offer", "no swap", "asleep after the look"],
)
def test_broken_phases_show(broken: Sequence[Program], why: str) -> None:
    with pytest.raises(WrongError, match=why):
        explore([ended(p) for p in broken], initial(2))


CORES = 1


def run(*, blind: bool = False) -> Program:
    """A run that waits for its turn, as `wait_turn` and `leave` do."""
    p = Program()

    def enter(m: Memory, r: Memory) -> None:
        r["ticket"] = m["entered"]
        m["entered"] += 1

    p.do(enter)
    p.label("again")
    if not blind:
        p.do(lambda m, r: r.update(number=m["box", r["ticket"]]))
    p.do(lambda m, r: r.update(left=m["left"]))
    p.when(lambda r: r["ticket"] - r["left"] < CORES, "go")
    if blind:
        p.do(lambda m, r: r.update(number=m["box", r["ticket"]]))
    p.sleep(lambda r: ("box", r["ticket"]), lambda r: r["ticket"])
    p.do(lambda m, r: None, "again")
    p.label("go")
    p.do(_begin)
    p.do(_leave)
    p.do(lambda m, r: r.update(entered=m["entered"]))
    p.when(lambda r: r["entered"] <= r["next"], "end")
    p.do(lambda m, r: m.update({("box", r["next"]): m["box", r["next"]] + 1}))
    p.wake(lambda r: r["next"])
    p.label("end")
    return p


def _begin(m: Memory, r: Memory) -> None:
    m["running"] += 1
    if m["running"] > CORES:
        raise WrongError("too many at a time")
    if r["ticket"] != m["left"]:
        raise WrongError("out of turn")


def _leave(m: Memory, r: Memory) -> None:
    m["running"] -= 1
    r["next"] = m["left"] + CORES
    m["left"] += 1


def queue() -> Memory:
    """The queue that waiting runs share."""
    return {"entered": 0, "left": 0, "running": 0, **{("box", i): 0 for i in range(5)}}


def test_runs_have_their_turn_in_order() -> None:
    assert explore([ended(run()) for _ in range(3)], queue()) > 100


def test_a_number_that_is_read_late_loses_a_turn() -> None:
    with pytest.raises(WrongError, match="nobody goes on"):
        explore([ended(run(blind=True)) for _ in range(3)], queue())
