"""`tessella targets`: the machines that code can be made for, and what this one is."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from tessella import targets
from tessella.targets.table import TARGETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    host = targets.host()
    if args.json:
        table = {name: asdict(target) for name, target in TARGETS.items()}
        print(json.dumps({"host": asdict(host), "targets": table}, indent=2))
        return 0
    print(f"host: {host.name} ({host.cpu} {host.feature_string}".rstrip() + f"), {host.triple}")
    caches = (("level 1", host.l1), ("level 2", host.l2), ("level 3", host.l3))
    print("caches: " + ", ".join(f"{name} {size // 1024} KiB" for name, size in caches))
    rows = [("name", "arch", "cpu", "vector bits", "registers", "runs here")]
    for target in TARGETS.values():
        runs = "yes" if targets.can_run(target) else "no"
        bits, registers = str(target.vector_bits), str(target.vector_registers)
        rows.append((target.name, target.arch, target.cpu, bits, registers, runs))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
    return 0
