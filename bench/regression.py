"""Compare this checkout with another one, interleaved: speed and compile time.

    python -m bench.regression ../base [NAME ...] --repeat 15 --compiles 3

Each checkout runs in its own process on the same inputs. Ratios are the other checkout's time over
this one's: above 1, this one is faster. Names are those of ``bench.models``, groups of
``bench.kernels``, or prefixes of either; without any, all are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from bench.cases import GROUPS
from bench.command import Command, show_machine, write_figures
from bench.models import NAMES
from tessella.tools.measure import geometric_mean
from tests.models import load_model, random_inputs

HERE = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("checkout.py")

TURN = 0.005
"""The least seconds of timed calls in a turn."""
MEAN_LIMIT, EACH_LIMIT = 0.97, 0.92
"""The least geometric mean of a group, and the least ratio of a case, that is no regression."""


class Checkout:
    """The process of one checkout."""

    def __init__(self, folder: Path, cache: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),
            "XDG_CACHE_HOME": cache,
            "TESSELLA_CACHE": "off",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def compile(self, model: Path, feeds: Path) -> float:
        """Compile a model, which later calls run; return the seconds."""
        return self._ask(compile=str(model), feeds=str(feeds))

    def call(self, calls: int) -> float:
        """Return the seconds of one call, averaged over ``calls`` calls."""
        return self._ask(calls=calls)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, **request: object) -> float:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended with status {self._process.wait()}")
        return float(json.loads(answer)["seconds"])


@dataclass(frozen=True)
class Case:
    """A model to measure, built on demand."""

    group: str
    name: str
    build: Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class Row:
    """One case: medians of both checkouts, and the median of the turns' ratios."""

    group: str
    name: str
    base_ms: float
    here_ms: float
    speed: float
    base_compile_s: float
    here_compile_s: float

    @property
    def compile(self) -> float:
        """The other checkout's compile time over this one's."""
        return self.base_compile_s / self.here_compile_s


def cases(names: Sequence[str]) -> Iterator[Case]:
    """Yield the models and groups with these names."""
    for name in names:
        if name in GROUPS:
            yield from (Case(name, case.name, case.build) for case in GROUPS[name]())
        else:
            yield Case("models", name, partial(load_model, name))


def measure(case: Case, base: Checkout, here: Checkout, repeat: int, compiles: int) -> Row:
    """Measure one case on both checkouts, interleaved."""
    model = case.build()
    with TemporaryDirectory() as folder:
        path, feeds = Path(folder) / "model.onnx", Path(folder) / "feeds.npz"
        path.write_bytes(model.SerializeToString())
        np.savez(feeds, allow_pickle=False, **random_inputs(model))
        both = (base, here)
        compiled = [[c.compile(path, feeds) for c in both] for _ in range(compiles)]
        count = max(1, round(TURN / max(base.call(3), 1e-7)))
        turns = [[c.call(count) for c in both] for _ in range(repeat)]
    return Row(
        case.group,
        case.name,
        median(a for a, _ in turns) * 1e3,
        median(b for _, b in turns) * 1e3,
        median(a / b for a, b in turns),
        median(a for a, _ in compiled),
        median(b for _, b in compiled),
    )


def _middle(rows: Sequence[Row]) -> Row:
    """Return the medians of one case over several rounds."""
    figures = ("base_ms", "here_ms", "speed", "base_compile_s", "here_compile_s")
    return replace(rows[0], **{name: median(getattr(r, name) for r in rows) for name in figures})


def _line(row: Row) -> str:
    mark = "  slower" if row.speed < EACH_LIMIT else ""
    return (
        f"  {row.name:36}{row.base_ms:10.3f}{row.here_ms:10.3f}{row.speed:7.2f}"
        f"{row.base_compile_s:11.3f}{row.here_compile_s:10.3f}{row.compile:7.2f}{mark}"
    )


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        speed = geometric_mean([row.speed for row in members])
        compiling = geometric_mean([row.compile for row in members])
        worst = min(members, key=lambda row: row.speed)
        yield (
            f"{group}: speed {speed:.3f}, compile time {compiling:.3f}; "
            f"slowest {worst.speed:.2f} ({worst.name})"
        )


def _regressed(rows: Sequence[Row]) -> bool:
    kinds = ([r for r in rows if r.group == "models"], [r for r in rows if r.group != "models"])
    means = [geometric_mean([row.speed for row in kind]) for kind in kinds if kind]
    return any(mean < MEAN_LIMIT for mean in means) or any(r.speed < EACH_LIMIT for r in rows)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("regression", "Compare this checkout with another one.")
    parser.add_argument("base", type=Path, help="the other checkout's folder")
    parser.add_names("model or group", [*NAMES, *GROUPS])
    parser.add_repeat(15)
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="rounds in new processes, whose medians count: where "
        "the system puts a process's memory moves single kernels by a fifth (default: 1)",
    )
    parser.add_argument("--compiles", type=int, default=3, help="compilations (default: 3)")
    options = parser.parse(arguments)
    if not (options.base / "src" / "tessella").is_dir():
        parser.error(f"{options.base} is no checkout of tessella")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if something is slower than the limits allow."""
    options = _parse(arguments)
    where = show_machine()
    print(f"  {'':36}{'base ms':>10}{'here ms':>10}{'speed':>7}", end="")
    print(f"{'base s':>11}{'here s':>10}{'comp.':>7}")
    rounds: list[list[Row]] = []
    with TemporaryDirectory() as cache:
        for _ in range(options.rounds):
            base, here = Checkout(options.base.resolve(), cache), Checkout(HERE, cache)
            rounds.append([])
            for case in cases(options.names):
                rounds[-1].append(measure(case, base, here, options.repeat, options.compiles))
                if options.rounds == 1:
                    print(_line(rounds[-1][-1]), flush=True)
            base.close()
            here.close()
    rows = [_middle(same) for same in zip(*rounds, strict=True)]
    if options.rounds > 1:
        print("\n".join(map(_line, rows)))
    print("\n".join(_summary(rows)))
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return int(bool(rows) and _regressed(rows))


if __name__ == "__main__":
    raise SystemExit(main())
