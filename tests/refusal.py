"""A system that refuses what a process asks for."""

from __future__ import annotations

import threading

import pytest


def refuse_threads(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let no thread start after so many, as where a limit is reached."""
    start, left = threading.Thread.start, [None] * after

    def refuse(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
