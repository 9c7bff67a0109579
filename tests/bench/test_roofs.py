"""Throughput and bandwidth of the machine on several threads."""

from __future__ import annotations

import os

import pytest

from bench import roofs
from bench.roofs import Roofs
from tessella import targets


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_thread_runs_its_share(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofs, "LONG", 0.0)
    found = Roofs(targets.native(), threads)
    size = 1 << 24
    for roof in (found.read(size), found.copy(size), found.add(size)):
        assert len(roof.probes) == threads
        assert size <= roof.amount < 1.01 * size
        roof()
    assert found.flops().amount == threads * found.flops().probes[0].amount


def test_this_thread_stays_on_its_cores() -> None:
    before = os.sched_getaffinity(0)
    Roofs(targets.native(), 2).flops()()
    assert os.sched_getaffinity(0) == before
