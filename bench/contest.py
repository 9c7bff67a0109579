"""Several runtimes on the same model: which ones can run it, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import onnx

from tessella.tools.peers import Array, Feeds, Run

K = TypeVar("K")
T = TypeVar("T")

Load = Callable[[Path, int], Run]
"""Loads a model from its file, for a number of threads."""


def attempt(calls: Mapping[K, Callable[[], T]]) -> tuple[dict[K, T], dict[K, str]]:
    """Return the results of successful calls, and a line for each one that raises.

    The failure of one runtime must not end a comparison.
    """
    found: dict[K, T] = {}
    failures: dict[K, str] = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            failures[name] = f"{type(error).__name__}: {lines[0]}"
    return found, failures


@dataclass(frozen=True)
class Contest:
    """The runtimes that can run a model, by name, with the results of a first call."""

    calls: Mapping[str, Callable[[], list[Array]]]
    outputs: Mapping[str, list[Array]]
    failures: Mapping[str, str]
    """The other runtimes, each with a line that says why."""


def contest(
    model: onnx.ModelProto, loads: Mapping[str, Load], feeds: Feeds, threads: int
) -> Contest:
    """Give the same file to all runtimes, and call each once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)

        def started(load: Load) -> tuple[Run, list[Array]]:
            run = load(path, threads)
            return run, [np.array(output) for output in run(feeds)]

        found, failures = attempt({name: partial(started, load) for name, load in loads.items()})
    calls = {name: partial(run, feeds) for name, (run, _) in found.items()}
    return Contest(calls, {name: outputs for name, (_, outputs) in found.items()}, failures)
