"""`tessella check`: all that is not supported in a model, at once."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from tessella.driver.stage_file import load_stage, stage_of
from tessella.support.errors import Unsupported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="an .onnx file, or a stage")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 for a model that is supported, 1 where something is not."""
    issues = _issues(args.model)
    if args.json:
        listed = [asdict(issue) for issue in issues]
        print(json.dumps({"supported": not issues, "issues": listed}, indent=2))
    elif issues:
        print(f"{len(issues)} unsupported {'thing' if len(issues) == 1 else 'things'}:")
        print(*(f"  {issue}" for issue in issues), sep="\n")
    else:
        print("supported")
    return int(bool(issues))


def _issues(path: str) -> Sequence[Unsupported]:
    if stage_of(path) is not None:
        load_stage(path)
        return ()
    # here, as a stage file does without the package onnx
    from tessella.frontends.onnx import check

    return check(path)
