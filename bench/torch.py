"""Compare tessella under torch.compile with PyTorch itself and with Inductor.

    python -m bench.torch [NAME ...] --threads 1 --repeat 10 --json results.json

For each network: the median of a forward call, in turns, with Inductor's weights frozen; the time
to the first answer, in a process of its own without caches; the first call at a second batch size,
in first calls, in another process whose batch is a dynamic dimension; and for some, the median of a
step of training. Names are those of ``tests.fixtures.networks``, or the beginning of some.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from time import perf_counter
from typing import Any

from bench.command import Command, show_machine, write_figures
from tessella.tools.measure import geometric_mean, interleave
from tessella.tools.peers import available

OURS, EAGER = "tessella", "eager"
PEERS = (OURS, "inductor", EAGER)

NETWORKS = (
    "encoder_opset18", "mobilenet_opset18", "mobilenet_v3", "efficientnet_b0", "convnext", "vit",
    "swin", "gpt2", "unet", "encoder_open", "decoder", "vit_open",
)  # fmt: skip
"""The networks of ``tests.fixtures.networks`` that are compared."""

TRAINED = ("mobilenet_opset18", "convnext", "vit_open", "encoder_open", "unet", "decoder")
"""The models for which a training step is measured."""

GOAL_EACH, GOAL_MEAN, GOAL_COLD, GOAL_TRAINED = 0.9, 1.1, 1 / 3, 0.9
"""Speed relative to the faster peer, for each network and in the geometric mean; the time to the
first answer relative to Inductor's; the speed of a training step relative to eager, in the mean."""

ONE, DYNAMIC = (1,), (2, 3)
"""The batch sizes of the first answer, and those of calls whose batch is a dynamic dimension:
PyTorch has graphs of their own for 0 and 1."""

WITHOUT_CACHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TESSELLA_CACHE": "off"}


@dataclass
class Row:
    """One network. Figures of peers that failed are missing."""

    name: str
    ms: dict[str, float] = field(default_factory=dict[str, float])
    """Median of a forward call by peer."""
    cold_s: dict[str, float] = field(default_factory=dict[str, float])
    """The time to the first answer, without that of imports."""
    second: dict[str, float] = field(default_factory=dict[str, float])
    """The time of the first call at a second batch size over that of the first call. The batch is a
    dynamic dimension, so nothing should be compiled."""
    step_ms: dict[str, float] = field(default_factory=dict[str, float])
    """Median of a step of training."""
    failures: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ratio(self) -> float | None:
        """The time of the faster peer over ours: above 1, we are faster."""
        return _ratio(self.ms, [peer for peer in self.ms if peer != OURS])

    @property
    def cold(self) -> float | None:
        """Our time to the first answer over Inductor's."""
        found = _ratio(self.cold_s, ["inductor"])
        return None if found is None else 1 / found

    @property
    def trained(self) -> float | None:
        """The time of an eager step over ours."""
        return _ratio(self.step_ms, [EAGER])


def _ratio(times: Mapping[str, float], peers: Sequence[str]) -> float | None:
    others = [times[peer] for peer in peers if peer in times]
    return min(others) / times[OURS] if others and OURS in times else None


# ** the peers **


def _network(name: str, batch: int = 1) -> tuple[Any, tuple[Any, ...]]:
    """Return a network and its arguments, which are repeated along the dimension of the batch: the
    first one, if the network names none."""
    how = import_module("tests.fixtures.networks").NETWORKS[name]
    arguments: list[Any] = []
    for x, dims in zip(how.example(), _batch_dims(how), strict=True):
        arguments.append(x.repeat(*(batch if d in dims else 1 for d in range(x.dim()))))
    return how.network(), tuple(arguments)


def _batch_dims(how: Any) -> list[list[int]]:
    """Return the dimensions of each argument that are the batch."""
    names = ((how.open or {}).get(argument, {0: "batch"}) for argument in how.inputs)
    return [[d for d, name in each.items() if name == "batch"] for each in names]


def _mark_batch(name: str, arguments: Sequence[Any]) -> None:
    """Make the batch a dynamic dimension of arguments."""
    mark = import_module("torch._dynamo").maybe_mark_dynamic
    how = import_module("tests.fixtures.networks").NETWORKS[name]
    for x, dims in zip(arguments, _batch_dims(how), strict=True):
        for d in dims:
            mark(x, d)


def _compiled(peer: str, network: Any) -> Any:
    torch: Any = import_module("torch")
    if peer == EAGER:
        return network
    if peer == OURS:
        return torch.compile(network, backend=OURS)
    settings: Any = import_module("torch._inductor.config")
    settings.freezing = not torch.is_grad_enabled()
    return torch.compile(network)


def _outputs(result: Any) -> Any:
    return result if hasattr(result, "square") else next(iter(result))


def _forward(peer: str, name: str) -> Callable[[], object]:
    torch: Any = import_module("torch")
    network, arguments = _network(name)
    with torch.no_grad():
        run = _compiled(peer, network.eval())
        run(*arguments)

    def call() -> object:
        with torch.no_grad():
            return run(*arguments)

    return call


def _step(peer: str, name: str) -> Callable[[], object]:
    torch: Any = import_module("torch")
    network, arguments = _network(name, 2)
    run = _compiled(peer, network.train())
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)

    def call() -> object:
        optimizer.zero_grad()
        _outputs(run(*arguments)).square().mean().backward()
        return optimizer.step()

    call()
    return call


def cold(peer: str, name: str, batches: Sequence[int]) -> list[float]:
    """Return the seconds of the first call at each batch size. If there are several, the batch is a
    dynamic dimension."""
    torch: Any = import_module("torch")
    seconds: list[float] = []
    network, _ = _network(name)
    with torch.no_grad():
        run = _compiled(peer, network.eval())
        for batch in batches:
            _, arguments = _network(name, batch)
            if len(batches) > 1:
                _mark_batch(name, arguments)
            start = perf_counter()
            run(*arguments)
            seconds.append(perf_counter() - start)
    return seconds


def _in_a_process(peer: str, name: str, threads: int, batches: Sequence[int]) -> list[float]:
    command = [sys.executable, "-m", "bench.torch", name, "--cold", peer, "--threads", str(threads)]
    command += ["--batches", *map(str, batches)]
    environment = {**os.environ, **WITHOUT_CACHES}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return json.loads(done.stdout.strip().rpartition("\n")[2])


# ** measuring **


def measure(name: str, peers: Sequence[str], threads: int, repeat: int) -> Row:
    """Compare the peers on one network."""
    row = Row(name)
    for times, make in ((row.ms, _forward), (row.step_ms, _step)):
        if make is _step and name not in TRAINED:
            continue
        calls: dict[str, Callable[[], object]] = {}
        for peer in peers:
            try:
                calls[peer] = make(peer, name)
            except Exception as error:  # one peer's failure must not end the comparison
                row.failures[peer] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        timings = interleave(calls, repeat=repeat)
        times |= {peer: timings[peer].median * 1e3 for peer in calls}
    for peer in peers:
        if peer not in row.failures and peer != EAGER:
            [row.cold_s[peer]] = _in_a_process(peer, name, threads, ONE)
            first, second = _in_a_process(peer, name, threads, DYNAMIC)
            row.second[peer] = second / first
    return row


# ** printing **


def _line(row: Row) -> str:
    def shown(times: Mapping[str, float], digits: int) -> str:
        return "".join(f"{times[p]:10.{digits}f}" if p in times else f"{'-':>10}" for p in PEERS)

    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    failures = "".join(f"\n    {peer} failed: {text}" for peer, text in row.failures.items())
    return (
        f"  {row.name:20}{shown(row.ms, 2)}{ratio:>7} |{shown(row.cold_s, 1)[:20]} |"
        f"{shown(row.second, 3)[:20]} |{shown(row.step_ms, 1)}{failures}"
    )


def _summary(rows: Sequence[Row]) -> str:
    lines: list[str] = []
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if ratios:
        met = sum(ratio >= GOAL_EACH for ratio in ratios)
        lines.append(
            f"forward: {met} of {len(ratios)} at least {GOAL_EACH} of the faster peer; "
            f"geometric mean {geometric_mean(ratios):.2f}, goal {GOAL_MEAN}"
        )
    colds = [row.cold for row in rows if row.cold is not None]
    if colds:
        lines.append(
            f"first answer: {geometric_mean(colds):.2f} of Inductor's time, goal {GOAL_COLD:.2f}"
        )
    seconds = [row.second[OURS] for row in rows if OURS in row.second]
    if seconds:
        lines.append(f"second batch size: at most {max(seconds):.3f} of the first call's time")
    steps = [row.trained for row in rows if row.trained is not None]
    if steps:
        lines.append(
            f"training: geometric mean {geometric_mean(steps):.2f} of eager's speed, "
            f"goal {GOAL_TRAINED}"
        )
    return "\n".join(lines)


# ** the command line **


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("torch", "Compare tessella under torch.compile.")
    parser.add_names("network", NETWORKS)
    parser.add_threads()
    parser.add_repeat(10, "timed calls")
    parser.add_peers(PEERS)
    parser.add_argument("--cold", choices=PEERS, help="time the first calls in this process")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=ONE, help="the batch sizes of these calls"
    )
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if anything failed."""
    options = _parse(arguments)
    if not available(["torch"]):
        return 0
    torch: Any = import_module("torch")
    torch.set_num_threads(options.threads)
    if options.cold:
        print(json.dumps(cold(options.cold, options.names[0], options.batches)))
        return 0
    where = show_machine()
    print(f"torch: {torch.__version__}; threads: {options.threads}; peers: {', '.join(PEERS)}")
    print(f"  {'':20}{'forward, ms':>30}{'ratio':>7} |{'first answer, s':>20} |", end="")
    print(f"{'second / first call':>20} |{'training step, ms':>30}")
    rows: list[Row] = []
    for name in options.names:
        rows.append(measure(name, options.peers, options.threads, options.repeat))
        print(_line(rows[-1]), flush=True)
    print(_summary(rows))
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return int(any(row.failures for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
