"""Garbage that compilations leave to the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tessella.support import collector
from tessella.support.collector import no_collection


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def leave(count: int) -> weakref.ref[Node]:
    """Drop so many objects that only the collector frees."""
    with no_collection():
        nodes = [Node() for _ in range(count)]
    return weakref.ref(nodes[0])


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few objects are many, however many there are. None are frozen, as others are in tests."""
    gc.unfreeze()
    gc.collect()
    monkeypatch.setattr(collector, "_frozen", False)
    monkeypatch.setattr(collector, "FEW_WAITING", 1000)
    monkeypatch.setattr(collector, "MOST_WAITING", 1000)
    monkeypatch.setattr(collector, "_most_waiting", 1000)
    monkeypatch.setattr(collector, "_waiting", 0)
    yield
    gc.collect()
    gc.freeze()


def test_much_garbage_is_gone_when_the_next_compilation_begins() -> None:
    garbage = leave(3000)
    assert garbage() is not None
    with no_collection():
        assert garbage() is None
        assert not gc.isenabled()
    assert gc.isenabled()


def test_little_garbage_waits_for_more() -> None:
    garbage = leave(600)
    with no_collection():
        assert garbage() is not None
    leave(600)
    with no_collection():
        assert garbage() is None


def test_a_quarter_of_what_is_left_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST_WAITING", 1 << 60)
    leave(3000)
    with no_collection():
        pass
    there = len(gc.get_objects())
    assert 4 * collector._most_waiting == pytest.approx(there, rel=0.1)
