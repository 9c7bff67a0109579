"""Compare tessella with NumPy, JAX and numba on functions of arrays.

    python -m bench.arrays [NAME ...] --repeat 20 --json results.json

Names are those of ``bench.array_cases``, or the beginning of some; without any, all are measured.
Each peer has one thread. Those that are not installed are left out.
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
from typing import Any

import numpy as np

from bench.array_cases import CASES, Array, ArrayCase, Modules
from bench.command import check_names, chosen, new_parser, show_machine, write_figures
from bench.measure import geometric_mean, interleave, relative_error
from bench.peers import available

OURS = "tessella"

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Read by the libraries when they are imported."""

GOAL_EACH, GOAL_MEAN = 0.97, 1.3
"""How many times as fast as the fastest peer: each function, and in the geometric mean."""

Run = Callable[[], list[Array]]


@dataclass
class Row:
    """One function. Figures are missing where the peer they are of failed."""

    name: str
    ms: dict[str, float] = field(default_factory=dict[str, float])
    """Median, by peer."""
    spread: dict[str, float] = field(default_factory=dict[str, float])
    first_s: dict[str, float] = field(default_factory=dict[str, float])
    """The first call, which compiles."""
    error: dict[str, float] = field(default_factory=dict[str, float])
    """Against the function in float64."""
    failures: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ratio(self) -> float | None:
        """The time of the fastest peer over ours: above 1 where we are faster."""
        others = [ms for peer, ms in self.ms.items() if peer != OURS]
        return min(others) / self.ms[OURS] if others and OURS in self.ms else None


# ** the peers **


def _erf(module: str) -> Callable[[Any], Any] | None:
    try:
        return importlib.import_module(module).erf
    except ImportError:
        return None


def run_numpy(case: ArrayCase, arguments: Sequence[Array]) -> Run:
    """NumPy; the error function is SciPy's."""
    modules = Modules(np, _erf("scipy.special"))
    function = case.others.get("numpy", case.function)
    return lambda: _outputs(function(modules, *arguments))


def run_tessella(case: ArrayCase, arguments: Sequence[Array]) -> Run:
    """The same function under `jit`."""
    tessella: Any = importlib.import_module(OURS)
    modules = Modules(np, tessella.erf)
    function = case.others.get(OURS, case.function)
    compiled = tessella.jit(partial(function, modules))
    return lambda: _outputs(compiled(*arguments))


def run_jax(case: ArrayCase, arguments: Sequence[Array]) -> Run:
    """JAX's `jit`, with arguments that are JAX's own."""
    jax: Any = importlib.import_module("jax")
    modules = Modules(importlib.import_module("jax.numpy"), _erf("jax.scipy.special"))
    function = case.others.get("jax", case.function)
    compiled = jax.jit(partial(function, modules))
    held = [jax.device_put(argument) for argument in arguments]
    return lambda: _outputs(jax.block_until_ready(compiled(*held)))


def run_numba(case: ArrayCase, arguments: Sequence[Array]) -> Run:
    """Loops, compiled by numba with all of its fast mathematics."""
    numba: Any = importlib.import_module("numba")
    compiled = numba.njit(fastmath=True)(case.loops)
    return lambda: _outputs(compiled(*arguments))


def _outputs(result: Any) -> list[Array]:
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


PEERS: Mapping[str, Callable[[ArrayCase, Sequence[Array]], Run]] = {
    "tessella": run_tessella,
    "numpy": run_numpy,
    "jax": run_jax,
    "numba": run_numba,
}


# ** measuring **


def measure(name: str, peers: Sequence[str], repeat: int) -> Row:
    """One function on all peers."""
    case, row = CASES[name], Row(name)
    arguments = case.arguments(np.random.default_rng(0))
    expected = _expected(case, arguments)
    calls: dict[str, Run] = {}
    for peer in peers:
        try:
            call = PEERS[peer](case, arguments)
            start = perf_counter()
            outputs = call()
        except Exception as error:  # one peer's failure must not end the comparison
            row.failures[peer] = f"{type(error).__name__}: {error}"
            continue
        row.first_s[peer] = perf_counter() - start
        row.error[peer] = relative_error(outputs, expected)
        calls[peer] = call
    for peer, timing in interleave(calls, repeat=repeat).items():
        row.ms[peer], row.spread[peer] = timing.median * 1e3, timing.spread
    return row


def _expected(case: ArrayCase, arguments: Sequence[Array]) -> list[Array]:
    """The function in float64, by NumPy."""
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arguments]
    return run_numpy(case, wide)()


# ** printing **


def _line(row: Row, peers: Sequence[str]) -> str:
    times = "".join(f"{row.ms[p]:12.3f}" if p in row.ms else f"{'-':>12}" for p in peers)
    ratio = f"{row.ratio:8.2f}" if row.ratio is not None else f"{'-':>8}"
    ours = f"{row.error[OURS]:10.0e}{row.spread[OURS]:8.0%}" if OURS in row.ms else ""
    verdict = "" if row.ratio is None else "  met" if row.ratio >= GOAL_EACH else "  missed"
    failures = "".join(f"\n    {peer} failed: {text}" for peer, text in row.failures.items())
    return f"  {row.name:32}{times}{ratio}{ours}{verdict}{failures}"


def _summary(rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if not ratios:
        return ""
    met = sum(ratio >= GOAL_EACH for ratio in ratios)
    return (
        f"\n{met} of {len(ratios)} at least {GOAL_EACH} of the fastest peer; "
        f"geometric mean {geometric_mean(ratios):.2f}, goal {GOAL_MEAN}"
    )


# ** the command line **


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = new_parser("arrays", "Compare tessella on functions of arrays.")
    parser.add_argument("names", nargs="*", help="functions, or beginnings of names; default: all")
    parser.add_argument("--repeat", type=int, default=20, help="timed calls (default: 20)")
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    options = parser.parse_args(arguments)
    check_names(parser, "function", options.names, CASES, str.startswith)
    check_names(parser, "peer", options.peers.split(","), PEERS)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if anything failed."""
    options = _parse(arguments)
    where = show_machine()
    peers = available(options.peers.split(","))
    print("one thread; ms in the median; ratio: the fastest peer's time over ours")
    print(
        f"  {'':32}{''.join(f'{peer:>12}' for peer in peers)}{'ratio':>8}{'error':>10}{'spread':>8}"
    )
    rows: list[Row] = []
    for name in chosen(CASES, options.names):
        rows.append(measure(name, peers, options.repeat))
        print(_line(rows[-1], peers), flush=True)
    print(_summary(rows))
    write_figures(options.json, where, rows=[asdict(row) | {"ratio": row.ratio} for row in rows])
    return int(any(row.failures for row in rows))


def _with_one_thread() -> None:
    """Start anew where libraries would find other settings."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ONE_THREAD})


if __name__ == "__main__":
    _with_one_thread()
    raise SystemExit(main())
