"""Threads that run one at a time, in an order that is given.

Between two barriers, one thread runs all of its part before the next one begins. Where a barrier is
missing, a thread then reads what is not written yet, or is written over, each time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

import pytest

from tessella.runtime.pool import LINE, POOL, Team
from tessella.runtime.program import _SEGMENT

_BARRIER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_BARRIER_SLOT = 8


class Turns:
    """A team whose threads take turns."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = list(order)
        self.runs = 0
        self._changed = threading.Condition()
        self._turn = 0
        """How many turns have ended."""

    def team(self, threads: int, code: object) -> Team:
        """In place of ``POOL.team``."""
        assert threads == len(self.order)
        return Team(threads, 0, self._run)

    def _run(
        self,
        _: int,
        segment: int,
        contexts: int,
        inputs: int,
        outputs: int,
        weights: int,
        arena: int,
        threads: int,
        brief: int,
    ) -> None:
        function = _SEGMENT(segment)
        numbers = {contexts + thread * LINE: thread for thread in range(threads)}
        wait = _BARRIER(lambda context: self._end_turn(numbers[context], again=True))
        self._turn = 0
        self.runs += 1

        def run(thread: int, context: int) -> None:
            slot = ctypes.c_void_p.from_address(context + _BARRIER_SLOT)
            slot.value = ctypes.cast(wait, ctypes.c_void_p).value
            self._await_turn(thread, 0)
            function(context, inputs, outputs, weights, arena, thread, threads)
            self._end_turn(thread, again=False)

        started = [
            threading.Thread(target=run, args=(thread, context))
            for context, thread in numbers.items()
        ]
        for each in started:
            each.start()
        for each in started:
            each.join()
        codes = [ctypes.c_int64.from_address(context).value for context in numbers]
        failed = min((code for code in codes if code), default=0)
        ctypes.c_int64.from_address(contexts).value = failed

    def _await_turn(self, thread: int, phase: int) -> None:
        mine = phase * len(self.order) + self.order.index(thread)
        with self._changed:
            self._changed.wait_for(lambda: self._turn == mine)

    def _end_turn(self, thread: int, *, again: bool) -> None:
        with self._changed:
            self._turn += 1
            phase = -(-self._turn // len(self.order))
            self._changed.notify_all()
        if again:
            self._await_turn(thread, phase)


def take_turns(monkeypatch: pytest.MonkeyPatch, order: Sequence[int]) -> Turns:
    """Let the threads of programs take turns in this order."""
    turns = Turns(order)
    monkeypatch.setattr(POOL, "team", turns.team)
    return turns
