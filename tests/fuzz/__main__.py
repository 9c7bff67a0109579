"""Run fuzzers.

    python -m tests.fuzz onnx --seed 1 --seconds 60
    python -m tests.fuzz all --seconds 60
    python -m tests.fuzz onnx --seed 4711 --cases 1      a case that was found, again

The cases of a seed are those of the seed, of the next one, and so on. A case that fails is
written to a folder, with a smaller one where there is one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.runner import Runner, command

SHOWN = 3
"""Findings of one kind that are shown in full."""


def main() -> int:
    """1 where something was found."""
    options = _parser().parse_args()
    names = FUZZERS if options.fuzzer == "all" else [options.fuzzer]
    found = [_run(FUZZERS[name], options) for name in names]
    return int(any(found))


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    lines = [f"  {f.name:10} {f.doc.splitlines()[0]}" for f in FUZZERS.values()]
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="\n".join([__doc__, *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("fuzzer", choices=[*FUZZERS, "all"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="%(default)s")
    return parser


def _run(fuzzer: Fuzzer, options: argparse.Namespace) -> bool:
    runner = Runner(fuzzer, options.out)
    seconds = options.seconds if options.seconds or options.cases else 60.0
    seen: dict[str, int] = {}
    for finding in runner.run(options.seed, seconds, options.cases):
        seen[finding.key] = seen.get(finding.key, 0) + 1
        print(f"FOUND {finding.key}\n  {command(fuzzer, finding)}", flush=True)
        if seen[finding.key] <= SHOWN:
            print(finding.text, flush=True)
    print(f"{fuzzer.name}: {runner.report}", flush=True)
    return bool(runner.report.findings)


if __name__ == "__main__":
    sys.exit(main())
