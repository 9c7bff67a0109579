"""Programs with symbolic sizes against programs for one size, over sizes.

    python -m bench.shapes [NAME ...] --threads 1 --sizes 1,7,16,33,64,128,384

Names are those of ``tests.models.OPEN_FIXTURES``, or prefixes. For a text model, the size is that
of the sequence (or of a decoder's cache, for one token), with a batch of 1; for other models that
of the batch. Sizes beyond a model's positions are skipped. Columns: the time of the specialised
program over that of the symbolic one; and the additional time of a size's first call, when a
program serves it already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

import tessella
from bench.command import Command, show_machine, write_figures
from tessella.support.errors import ExecutionError
from tessella.tools.measure import geometric_mean, interleave, relative_error
from tests.models import OPEN_FIXTURES, load_fixture, random_inputs

SIZES = (1, 7, 16, 33, 64, 128, 384)
FRESH = 32
"""Sizes whose first calls are timed."""


@dataclass
class Row:
    """One size of a model."""

    model: str
    size: int
    fixed_ms: float
    open_ms: float
    ratio: float
    error: float
    told: Sequence[str]


def dims_of(model: Any, size: int) -> Mapping[str, int]:
    """Return the dynamic dimensions of a model, one of which has this size."""
    names = {d for info in model.inputs for d in info.shape if isinstance(d, str)}
    varied = next(name for name in ("past", "seq", "batch") if name in names)
    return {**dict.fromkeys(names, 1), varied: size}


def compare(name: str, sizes: Sequence[int], threads: int, repeat: int) -> list[Row]:
    """Measure a model."""
    proto = load_fixture(name)
    opened = tessella.compile(proto, threads=threads, dims={})
    rows: list[Row] = []
    for size in sizes:
        dims = dims_of(opened, size)
        feeds = random_inputs(proto, sizes=dims)
        fixed = tessella.compile(proto, threads=threads, dims="fixed")
        try:
            expected = fixed.run(None, feeds)
        except ExecutionError:  # the model has fewer positions
            continue
        found = opened.run(None, feeds)
        calls = {"open": partial(opened.run, None, feeds), "fixed": partial(fixed.run, None, feeds)}
        times = interleave(calls, repeat=repeat, turn=0.02)
        ms = {key: timing.median * 1e3 for key, timing in times.items()}
        error = relative_error(found, expected)
        told = opened.explain().sizes
        ratio = ms["fixed"] / ms["open"]
        rows.append(Row(name, size, ms["fixed"], ms["open"], ratio, error, told))
    return rows


def first_calls(name: str, threads: int) -> float:
    """Return the additional microseconds of a size's first call, in the median over alternating
    sizes.

    A program serves these sizes already.
    """
    proto = load_fixture(name)
    opened = tessella.compile(proto, threads=threads, dims={})
    sizes = range(20, 20 + FRESH)
    feeds = [random_inputs(proto, sizes=dims_of(opened, size)) for size in (19, *sizes)]
    calls = [partial(opened.run, None, each) for each in feeds]
    calls[0]()  # compiles
    first, *later = ([_seconds(call) for call in calls[1:]] for _ in range(3))
    return float(np.median(np.array(first) - np.mean(later, axis=0))) * 1e6


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = Command("shapes", "Compare programs with open sizes with those for one size.")
    parser.add_names("model", OPEN_FIXTURES)
    parser.add_threads()
    parser.add_repeat(15)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="default: %(default)s")
    options = parser.parse(arguments)
    where = show_machine()
    rows: list[Row] = []
    more: dict[str, float] = {}
    for name in options.names:
        sizes = [int(size) for size in options.sizes.split(",")]
        rows += (new := compare(name, sizes, options.threads, options.repeat))
        more[name] = first_calls(name, options.threads)
        print(f"\n{name}: the first call of a size takes {more[name]:.0f} us longer")
        print(f"  {'size':>5}{'fixed ms':>10}{'open ms':>10}{'ratio':>7}{'error':>9}")
        for row in new:
            print(f"  {row.size:5}{row.fixed_ms:10.3f}{row.open_ms:10.3f}", end="")
            print(f"{row.ratio:7.2f}{row.error:9.1e}  {'; '.join(row.told)}"[:120])
        print(f"  geometric mean {geometric_mean([row.ratio for row in new]):.2f}")
    print(f"\ngeometric mean of all {geometric_mean([row.ratio for row in rows]):.2f}")
    write_figures(options.json, where, rows=[asdict(row) for row in rows], first_calls=more)
    return int(not np.all([row.error < 1e-4 for row in rows]))


if __name__ == "__main__":
    raise SystemExit(main())
