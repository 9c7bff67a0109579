"""The profile of a session's runs, as a trace for ``chrome://tracing`` or Perfetto."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tessella.frontends.session.process import CPU
from tessella.runtime.model import Array, CallableModel, Out
from tessella.runtime.profile import Activity
from tessella.support import fork
from tessella.support.clock import now
from tessella.support.errors import OptionError

Event = Mapping[str, object]


class Recording:
    """The recorded events of a session since the profile began. Recorded runs wait for each
    other."""

    def __init__(self, prefix: str) -> None:
        self.began = time.time_ns()
        """The time at which the profile began, in nanoseconds since 1970."""
        self._prefix = prefix
        self._zero = now()
        self._events: list[Event] = []
        self._lock = fork.Lock()

    def initialized(self) -> None:
        """Record the initialization of the session, its compilation or loading, as an event that
        began with the profile."""
        self._add("session_initialization", "Session", 0.0, self._elapsed(), 0, {})

    def run(
        self,
        model: CallableModel,
        names: Sequence[str] | None,
        feeds: Mapping[str, npt.ArrayLike],
        out: Out | None,
    ) -> list[Array]:
        """Run a model, record its activity as events, and return its outputs. Compilations in the
        run are recorded as one event."""
        with self._lock:
            start = self._elapsed()
            results, spans = model.run_traced(names, feeds, out=out)
            self._add("model_run", "Session", start, self._elapsed() - start, 0, {})
            for span in spans:
                self._add_span(span, start)
        return results

    def write(self) -> str:
        """Write the events as a trace file, and return the name of the file. Raises OptionError if
        that fails."""
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = f"{self._prefix}_{stamp}_{time.time_ns() // 1_000_000 % 1000:03}.json"
        try:
            Path(path).write_text(json.dumps([*self._all()], indent=0))
        except OSError as error:
            raise OptionError(
                f"cannot write the profile: {error.strerror or error}",
                where=path,
                hint="profile_file_prefix of the session's options begins its path",
            ) from error
        return path

    def _all(self) -> Iterator[Event]:
        with self._lock:
            yield from self._events

    def _elapsed(self) -> float:
        """Return the microseconds since the profile began."""
        return (now() - self._zero) / 1e3

    def _add_span(self, span: Activity, start: float) -> None:
        is_node = span.kind in ("kernel", "numpy")
        args: dict[str, Any] = {"op_name": span.name, "nodes": [*span.nodes], "provider": CPU}
        name = f"{span.nodes[0] if span.nodes else span.name}_kernel_time"
        self._add(
            name if is_node else span.name,
            "Node" if is_node else "Session",
            start + span.start * 1e6,
            (span.end - span.start) * 1e6,
            span.thread,
            args if is_node else {},
        )

    def _add(
        self, name: str, category: str, start: float, length: float, thread: int, args: Event
    ) -> None:
        times = {"ts": round(start, 3), "dur": round(length, 3)}
        event = {"cat": category, "pid": os.getpid(), "tid": thread, "ph": "X", "name": name}
        self._events.append({**event, **times, "args": args})
