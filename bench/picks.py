"""Compare the strategies for picking kernels, on whole models.

    python -m bench.picks [NAME ...] --threads 1 --repeat 20 --seconds 60 --json results.json

Each model is compiled with kernels picked by grade and by cost. With ``--seconds``, kernels are
first measured for that long, and the model is also compiled with these times. Ratios are relative
to the pick by cost: above 1, the other one is slower. Names are those of ``bench.models``.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.command import Command, show_machine, write_figures
from bench.models import NAMES
from tessella.tools.measure import geometric_mean, interleave
from tests.models import load_model, random_inputs


@dataclass(frozen=True)
class Row:
    """A model's milliseconds by strategy, and the number of ops with other kernels than by cost."""

    model: str
    milliseconds: dict[str, float]
    others: dict[str, int]

    def ratio(self, strategy: str) -> float:
        """Return the ratio to the time by cost."""
        return self.milliseconds[strategy] / self.milliseconds["cost"]


def compare(name: str, *, threads: int, repeat: int, seconds: float, folder: Path) -> Row:
    """Time a model by each strategy."""
    tessella: Any = importlib.import_module("tessella")
    model = load_model(name)
    feeds = random_inputs(model)
    ways: dict[str, dict[str, Any]] = {"cost": {}, "grade": {"pick": "grade"}}
    if seconds:
        database = str(folder / "times.json")
        ways["measure"] = {"pick": "measure", "budget": seconds, "database": database}
    models = {
        w: tessella.compile(model, threads=threads, options=tessella.Options(**rare))
        for w, rare in ways.items()
    }
    calls = {way: partial(compiled.run, None, feeds) for way, compiled in models.items()}
    timings = interleave(calls, repeat=repeat)
    kernels = {way: _kernels(compiled) for way, compiled in models.items()}
    differing = {
        way: sum(kernels["cost"].get(node) != kernel for node, kernel in found.items())
        for way, found in kernels.items()
    }
    return Row(name, {way: t.median * 1e3 for way, t in timings.items()}, differing)


def _kernels(model: Any) -> dict[str, tuple[str, str]]:
    return {e["node"]: (e["kernel"], e["place"]) for e in model.explain().ops}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("picks", "Compare the ways in which kernels are picked.")
    parser.add_names("model", NAMES)
    parser.add_threads()
    parser.add_repeat(20, "timed calls")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="to measure kernels (default: 0)"
    )
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parse(arguments)
    where = show_machine()
    settings = {name: getattr(options, name) for name in ("threads", "repeat", "seconds")}
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        for name in options.names:
            rows.append(row := compare(name, **settings, folder=Path(folder)))
            texts = (
                f"{way} {ms:.2f} ms ({row.ratio(way):.3f}, {row.others[way]} other kernels)"
                for way, ms in row.milliseconds.items()
            )
            print(f"{name}: {'; '.join(texts)}", flush=True)
    for way in rows[0].milliseconds:
        mean = geometric_mean([row.ratio(way) for row in rows])
        print(f"geometric mean of {way} to cost: {mean:.3f}")
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
