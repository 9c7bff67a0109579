"""Time limits for the tests of each folder, in seconds of one process of three on two cores.

Their sum, divided among three processes, is the four minutes that `make test` may take. A run with
``--slow`` may take five times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BUDGETS = {
    "bench": 25,
    "codegen": 36,
    "dialects": 10,
    "docs": 14,
    "driver": 115,
    "examples": 20,
    "frontends": 113,
    "fuzz": 10,
    "hostile": 25,
    "kernels": 115,
    "lowering": 50,
    "passes": 62,
    "release": 15,
    "runtime": 32,
    "support": 10,
    "targets": 2,
    "tools": 72,
    "": 18,
}
"""By the folder in `tests/`; the last one is that of the files in `tests/` itself."""

SLOW = 5
"""How much longer the slow tests may take."""


def exceeded(durations: Iterable[tuple[str, float]], *, slow: bool = False) -> Iterator[str]:
    """A line for each folder whose tests, by id and seconds, take longer than its budget."""
    taken: dict[str, float] = {}
    for name, seconds in durations:
        taken[_folder(name)] = taken.get(_folder(name), 0.0) + seconds
    for folder, seconds in sorted(taken.items()):
        budget = BUDGETS[folder] * (SLOW if slow else 1)
        if seconds > budget:
            yield f"tests/{folder}: {seconds:.0f} s, its budget is {budget} s (tests/budgets.py)"


def _folder(name: str) -> str:
    """The folder in `tests/` of a test's id, `tests/driver/test_model.py::test_x`."""
    parts = name.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else ""
