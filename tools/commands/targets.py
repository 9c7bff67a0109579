"""`tessella targets`: the machines that code can be generated for, and facts about this one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from tessella import targets
from tessella.driver.tune import calibrate
from tessella.support.columns import aligned
from tessella.targets import Target, machine, measured
from tessella.targets.table import TARGETS

Show = Callable[[Target, float], str]


def _kib(_: Target, value: float) -> str:
    return f"{int(value) // 1024} KiB"


def _number(unit: str) -> Show:
    return lambda _, value: f"{value:g} {unit}"


def _bandwidth(target: Target, value: float) -> str:
    return f"{value:g} bytes a cycle ({value * target.ghz:.0f} GB/s)"


_FACTS: tuple[tuple[str, str, Show], ...] = (
    ("vectors", "vector_bits", _number("bits")),
    ("vector registers", "vector_registers", _number("of them")),
    ("multiply-adds", "fma_ports", _number("a cycle")),
    ("multiply-add's latency", "fma_latency", _number("cycles")),
    ("loads", "load_ports", _number("a cycle")),
    ("stores", "store_ports", _number("a cycle")),
    ("clock under vector load", "ghz", _number("GHz")),
    ("level 1 cache", "l1", _kib),
    ("level 2 cache", "l2", _kib),
    ("level 3 cache", "l3", _kib),
    ("cache line", "cache_line", _number("bytes")),
    ("reading level 1", "l1_bandwidth", _bandwidth),
    ("reading level 2", "l2_bandwidth", _bandwidth),
    ("reading level 3", "l3_bandwidth", _bandwidth),
    ("reading memory", "memory_bandwidth", _bandwidth),
)
"""The facts shown about this machine: a label, a field of the target, and the format of its
value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure this machine first (some seconds), for all later compilations",
    )


def run(args: argparse.Namespace) -> int:
    """Print facts about this machine, measured first if requested, and a table of all targets.
    Returns 0."""
    if args.measure:
        native = targets.native()
        calibrate.store(native, calibrate.measure(native, _report))
    if args.json:
        print(json.dumps(_document(), indent=2))
        return 0
    print("\n".join([*_native_lines(), "", *aligned(_table())]))
    return 0


def _report(what: str) -> None:
    print(f"measuring {what}", file=sys.stderr)


def _document() -> dict[str, object]:
    return {
        "native": asdict(targets.native()),
        "sources": machine.sources(),
        "targets": {name: asdict(target) for name, target in TARGETS.items()},
    }


def _native_lines() -> Iterator[str]:
    native, sources = targets.native(), machine.sources()
    features = f" {native.feature_string}" if native.features else ""
    yield f"native: {native.name} ({native.cpu}{features}), {native.triple}"
    rows = [(name, show(native, getattr(native, f)), sources[f]) for name, f, show in _FACTS]
    yield from (f"  {line}" for line in aligned(rows))
    file = measured.path(native.name, machine.processor())
    if "measured" in sources.values():
        yield f"measured figures are from {file}"
    else:
        yield "ports, clock and bandwidths were not measured: `tessella targets --measure` does it"


def _table() -> Iterator[tuple[str, ...]]:
    yield "name", "arch", "cpu", "vector bits", "registers", "runs here"
    for target in TARGETS.values():
        runs = "yes" if targets.can_run(target) else "no"
        bits, registers = str(target.vector_bits), str(target.vector_registers)
        yield target.name, target.arch, target.cpu, bits, registers, runs
