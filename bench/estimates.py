"""Compare what kernels are estimated to take with what they take, over networks.

    python -m bench.estimates [NAME ...] --json results.json

Names are those of ``bench.models``. Each network is profiled on one thread. A class is all kernels
of the same ops; an outlier is a kernel whose estimate is wrong by more than ``GOAL``, and that
takes more than ``MATTERS`` of its network.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import tessella
from bench.command import Command, show_machine, write_figures
from bench.models import NAMES
from tessella.runtime.profile import ProfileRow
from tessella.support.columns import aligned
from tessella.tools.measure import geometric_mean
from tests.models import load_model, random_inputs

GOAL = 2.0
"""The acceptable factor of an estimate's error."""
MATTERS = 0.01
"""The share of a network from which a kernel matters."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a network, with all of its calls."""

    model: str
    kernel: str
    calls: int
    measured: float
    estimated: float
    """Seconds of a run."""
    share: float
    """The share of the network's time."""

    @property
    def name(self) -> str:
        """Its class: the ops that it computes."""
        return re.sub(r"_\d+(\.\d+)?$", "", self.kernel)

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated / self.measured

    @property
    def is_outlier(self) -> bool:
        """True if the estimate is wrong and the kernel matters."""
        return self.share > MATTERS and max(self.ratio, 1 / self.ratio) > GOAL


def measure(name: str) -> list[Kernel]:
    """Profile a network."""
    proto = load_model(name)
    profile = tessella.compile(proto, threads=1).profile(random_inputs(proto))
    rows: dict[str, list[ProfileRow]] = {}
    for row in profile.rows:
        if row.estimate:
            rows.setdefault(row.kernel, []).append(row)
    return [_kernel(name, kernel, found, profile.seconds) for kernel, found in rows.items()]


def _kernel(model: str, kernel: str, rows: Sequence[ProfileRow], seconds: float) -> Kernel:
    measured, estimated = sum(r.seconds for r in rows), sum(r.estimate or 0.0 for r in rows)
    calls = sum(row.calls for row in rows)
    return Kernel(model, kernel, calls, max(measured, 1e-12), estimated, measured / seconds)


def _classes(kernels: Iterable[Kernel]) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table of classes, the most expensive first."""
    classes: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        classes.setdefault(kernel.name, []).append(kernel)
    shares = {name: sum(k.share for k in found) for name, found in classes.items()}
    for name in sorted(classes, key=lambda name: -shares[name]):
        ratios = [kernel.ratio for kernel in classes[name]]
        mean = geometric_mean(ratios)
        least, most = (f"{edge:.2f}" for edge in (min(ratios), max(ratios)))
        yield name, str(len(ratios)), f"{shares[name]:.2f}", f"{mean:.2f}", least, most


def _outliers(kernels: Iterable[Kernel]) -> Iterator[tuple[str, ...]]:
    found = (kernel for kernel in kernels if kernel.is_outlier)
    for k in sorted(found, key=lambda kernel: -kernel.share):
        times = (f"{seconds * 1e6:.1f}" for seconds in (k.measured, k.estimated))
        yield k.kernel, k.model, str(k.calls), f"{k.share:.1%}", *times, f"{k.ratio:.2f}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("estimates", "Compare estimates of kernels with times.")
    parser.add_names("model", NAMES)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if there are outliers."""
    options = _parse(arguments)
    where = show_machine()
    kernels = [k for name in options.names for k in measure(name)]
    header = ("class", "kernels", "networks", "ratio", "least", "most")
    print("", *aligned([header, *_classes(kernels)], 1), sep="\n")
    outliers = list(_outliers(kernels))
    header = ("outlier", "network", "calls", "share", "us", "model us", "ratio")
    print("", *aligned([header, *outliers], 2), sep="\n")
    rows = [asdict(kernel) | {"ratio": kernel.ratio} for kernel in kernels]
    write_figures(options.json, where, rows=rows)
    return int(bool(outliers))


if __name__ == "__main__":
    raise SystemExit(main())
