"""Shares of phases that one thread computes in an order that is given.

Where a barrier is missing, a share then reads what is not written yet, or is written over, each
time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pytest

from tessella.runtime.native_steps import SEGMENT
from tessella.runtime.pool import CONTEXT, LINE, POOL, Team

_LAUNCH = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
_PHASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Turns:
    """A team that computes shares one after the other."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = list(order)
        self.runs = 0
        self.phases = 0
        self._launch = _LAUNCH(lambda _, phase, args: self._run_phase(phase, args))
        self.address = ctypes.cast(self._launch, ctypes.c_void_p).value or 0
        """The function for the slot ``launch`` of a context."""

    def team(self, threads: int, code: object) -> Team:
        """A replacement for ``POOL.team``."""
        assert threads == len(self.order)
        return Team(threads, 0, self._run)

    def _run(
        self,
        _: int,
        segment: int,
        arguments: int,
        threads: int,
        brief: int,
    ) -> None:
        self.runs += 1
        contexts = ctypes.c_int64.from_address(arguments).value
        context = (ctypes.c_int64 * len(CONTEXT)).from_address(contexts)
        context[CONTEXT.index("launch")] = self.address
        context[CONTEXT.index("shares")] = threads
        SEGMENT(segment)(arguments)
        context[CONTEXT.index("launch")] = 0
        places = (contexts + share * LINE for share in range(threads))
        codes = [ctypes.c_int64.from_address(place).value for place in places]
        context[0] = min((code for code in codes if code), default=0)

    def _run_phase(self, phase: int, args: int) -> None:
        self.phases += 1
        for share in self.order:
            _PHASE(phase)(args, share, len(self.order))


def take_turns(monkeypatch: pytest.MonkeyPatch, order: Sequence[int]) -> Turns:
    """Have the shares of programs computed in this order."""
    turns = Turns(order)
    monkeypatch.setattr(POOL, "team", turns.team)
    return turns
