"""`tessella check`: everything in a model that is not supported, at once."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from tessella.driver.stage_file import load_stage
from tessella.driver.stages import stage_of
from tessella.frontends.compile import open_source
from tessella.support.errors import Unsupported, UnsupportedError
from tessella.tools.commands.shared import add_model, shapes_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 for a model that is supported, 1 where something is not.

    Raises TessellaError for what is no model, and for shapes that do not fit together.
    """
    issues, unknown = _checked(args.model, args.shape)
    if args.json:
        listed = [asdict(issue) for issue in issues]
        print(json.dumps({"supported": not issues, "issues": listed}, indent=2))
    elif issues:
        print(f"{len(issues)} unsupported {'thing' if len(issues) == 1 else 'things'}:")
        print(*(f"  {issue}" for issue in issues), sep="\n")
    elif unknown:
        print(
            f"supported; not checked: shapes, as {_listed(unknown)} symbolic dimensions (--shape)"
        )
    else:
        print("supported")
    return int(bool(issues))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names))
    return f"{shown} {'has' if len(names) == 1 else 'have'}"


def _checked(path: str, shapes: Sequence[str]) -> tuple[Sequence[Unsupported], Sequence[str]]:
    """What is not supported; and the inputs without which shapes cannot be checked."""
    if stage_of(path) is not None:
        load_stage(path)
        return (), ()
    try:
        source = open_source(path)
        known = shapes_of(source.inputs, shapes)
        unknown = [info.name for info in source.inputs if info.name not in known]
        if not unknown:
            source.graph(known)
    except UnsupportedError as error:
        return error.issues, ()
    return (), unknown
