"""Compare tessella with NumPy, JAX and numba on functions of arrays.

    python -m bench.arrays [NAME ...] --threads 1 --repeat 20 --json results.json

Names are those of ``bench.array_cases``, or the beginning of some; without any, all are measured.
Each peer has as many threads, where it can use them. Those that are not installed are left out.
Functions that only move memory are compared with a loop that moves as much, on as many threads.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import perf_counter
from types import FunctionType
from typing import Any

import numpy as np

from bench.array_cases import CASES, Array, ArrayCase, Modules
from bench.command import Command, show_machine, write_figures
from bench.roofs import Roofs
from tessella import targets
from tessella.tools.measure import geometric_mean, interleave, relative_error
from tessella.tools.peers import available

OURS = "tessella"


def environment(threads: int) -> dict[str, str]:
    """Return environment variables that libraries read on import to set their number of threads."""
    number, several = str(threads), str(threads > 1).lower()
    return {
        "OMP_NUM_THREADS": number,
        "OPENBLAS_NUM_THREADS": number,
        "MKL_NUM_THREADS": number,
        "NUMBA_NUM_THREADS": number,
        "JAX_PLATFORMS": "cpu",
        "PJRT_NPROC": number,  # the size of its thread pool
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={several}",
    }


GOAL_EACH, GOAL_MEAN, GOAL_BANDWIDTH = 0.97, 1.3, 0.9
"""Speed relative to the fastest peer, for each function and in the geometric mean, and the share of
the bandwidth for a function that only moves memory."""
ROOF = "bandwidth"

Run = Callable[[], list[Array]]


@dataclass
class Row:
    """One function. Figures of peers that failed are missing."""

    name: str
    ms: dict[str, float] = field(default_factory=dict[str, float])
    """Median by peer."""
    spread: dict[str, float] = field(default_factory=dict[str, float])
    first_s: dict[str, float] = field(default_factory=dict[str, float])
    """The first call, which compiles."""
    error: dict[str, float] = field(default_factory=dict[str, float])
    """Against the function in float64."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    of_bandwidth: float | None = None
    """For a function that only moves memory."""

    @property
    def met(self) -> bool:
        """True if the function reaches its goal."""
        each = self.ratio is None or self.ratio >= GOAL_EACH
        return each and (self.of_bandwidth is None or self.of_bandwidth >= GOAL_BANDWIDTH)

    @property
    def ratio(self) -> float | None:
        """The time of the fastest peer over ours: above 1, we are faster."""
        others = [ms for peer, ms in self.ms.items() if peer != OURS]
        return min(others) / self.ms[OURS] if others and OURS in self.ms else None


# ** the peers **


def _erf(module: str) -> Callable[[Any], Any] | None:
    try:
        return importlib.import_module(module).erf
    except ImportError:
        return None


def run_numpy(case: ArrayCase, arguments: Sequence[Array], threads: int = 1) -> Run:
    """Run NumPy, in which only products use threads; the error function is SciPy's."""
    modules = Modules(np, _erf("scipy.special"))
    function = case.others.get("numpy", case.function)
    return lambda: _outputs(function(modules, *arguments))


def run_tessella(case: ArrayCase, arguments: Sequence[Array], threads: int) -> Run:
    """Run the function under `jit`."""
    tessella: Any = importlib.import_module(OURS)
    modules = Modules(np, tessella.erf)
    function = case.others.get(OURS, case.function)
    compiled = tessella.jit(partial(function, modules), threads=threads)
    return lambda: _outputs(compiled(*arguments))


def run_jax(case: ArrayCase, arguments: Sequence[Array], threads: int) -> Run:
    """Run JAX's `jit` on JAX arrays."""
    jax: Any = importlib.import_module("jax")
    modules = Modules(importlib.import_module("jax.numpy"), _erf("jax.scipy.special"))
    function = case.others.get("jax", case.function)
    compiled = jax.jit(partial(function, modules))
    held = [jax.device_put(argument) for argument in arguments]
    return lambda: _outputs(jax.block_until_ready(compiled(*held)))


def run_numba(case: ArrayCase, arguments: Sequence[Array], threads: int) -> Run:
    """Run loops that numba compiles with all fast-math options; threads share the outer ones."""
    numba: Any = importlib.import_module("numba")
    loops = FunctionType(case.loops.__code__, {**case.loops.__globals__, "prange": numba.prange})
    compiled = numba.njit(fastmath=True, parallel=threads > 1)(loops)
    return lambda: _outputs(compiled(*arguments))


def _outputs(result: Any) -> list[Array]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


PEERS: Mapping[str, Callable[[ArrayCase, Sequence[Array], int], Run]] = {
    "tessella": run_tessella,
    "numpy": run_numpy,
    "jax": run_jax,
    "numba": run_numba,
}


# ** measuring **


def measure(name: str, peers: Sequence[str], roofs: Roofs, repeat: int) -> Row:
    """Measure one function on all peers."""
    case, row = CASES[name], Row(name)
    arguments = case.arguments(np.random.default_rng(0))
    contestants: dict[str, Callable[[], object]] = {}
    expected = _expected(case, arguments)
    for peer in peers:
        try:
            call = PEERS[peer](case, arguments, roofs.count)
            start = perf_counter()
            outputs = call()
        except Exception as error:  # one peer's failure must not end the comparison
            row.failures[peer] = f"{type(error).__name__}: {error}"
            continue
        row.first_s[peer] = perf_counter() - start
        row.error[peer] = relative_error(outputs, expected)
        contestants[peer] = call
    size = sum(array.nbytes for array in (*arguments, *expected))
    del expected
    roof = case.roof and case.roof(roofs, size)
    timings = interleave({**contestants, ROOF: roof} if roof else contestants, repeat=repeat)
    for peer in contestants:
        row.ms[peer], row.spread[peer] = timings[peer].median * 1e3, timings[peer].spread
    if roof and OURS in contestants:
        row.of_bandwidth = size / roof.amount * timings[ROOF].median / timings[OURS].median
    return row


def _expected(case: ArrayCase, arguments: Sequence[Array]) -> list[Array]:
    """Return the function's results in float64 by NumPy, rounded."""
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arguments]
    return [np.asarray(each, np.float32) for each in run_numpy(case, wide)()]


# ** printing **


def _line(row: Row, peers: Sequence[str]) -> str:
    times = "".join(f"{row.ms[p]:12.3f}" if p in row.ms else f"{'-':>12}" for p in peers)
    ratio = f"{row.ratio:8.2f}" if row.ratio is not None else f"{'-':>8}"
    ours = f"{row.error[OURS]:10.0e}{row.spread[OURS]:8.0%}" if OURS in row.ms else ""
    bandwidth = "-" if row.of_bandwidth is None else f"{row.of_bandwidth:.0%}"
    verdict = "" if row.ratio is None else "  met" if row.met else "  missed"
    failures = "".join(f"\n    {peer} failed: {text}" for peer, text in row.failures.items())
    return f"  {row.name:32}{times}{ratio}{ours}{bandwidth:>10}{verdict}{failures}"


def _summary(rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if not ratios:
        return ""
    met = sum(row.met for row in rows if row.ratio is not None)
    return (
        f"\n{met} of {len(ratios)} at least {GOAL_EACH} of the fastest peer, "
        f"{GOAL_BANDWIDTH:.0%} of the bandwidth if that is all; "
        f"geometric mean {geometric_mean(ratios):.2f}, goal {GOAL_MEAN}"
    )


# ** the command line **


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("arrays", "Compare tessella on functions of arrays.")
    parser.add_names("function", CASES)
    parser.add_threads()
    parser.add_repeat(20, "timed calls")
    parser.add_peers(PEERS)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if anything failed."""
    options = _parse(arguments)
    where = show_machine()
    peers, roofs = available(options.peers), Roofs(targets.native(), options.threads)
    print(f"threads: {options.threads}; ms in the median; ratio: the fastest peer's time over ours")
    figures = f"{'ratio':>8}{'error':>10}{'spread':>8}{ROOF:>10}"
    print(f"  {'':32}{''.join(f'{peer:>12}' for peer in peers)}{figures}")
    rows: list[Row] = []
    for name in options.names:
        rows.append(measure(name, peers, roofs, options.repeat))
        print(_line(rows[-1], peers), flush=True)
    print(_summary(rows))
    write_figures(options.json, where, rows=[asdict(row) | {"ratio": row.ratio} for row in rows])
    return int(any(row.failures for row in rows))


def _with_threads(threads: int) -> None:
    """Restart the process if libraries would read other settings."""
    settings = environment(threads)
    if any(os.environ.get(name) != value for name, value in settings.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **settings})


if __name__ == "__main__":
    _with_threads(_parse(None).threads)
    raise SystemExit(main())
