"""`tessella check`: everything in a model that is not supported, at once; whether an artifact is
whole."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tessella.driver.stage_file import load_stage
from tessella.driver.stages import ARTIFACT, stage_of
from tessella.frontends.compile import open_source
from tessella.runtime.loaded import load
from tessella.support.errors import UnknownValueError, Unsupported, UnsupportedError
from tessella.tools.commands.shared import add_model, add_values, shapes_of, values_of
from tessella.tools.commands.useless import Useless, is_artifact

USELESS = (
    Useless(
        ("shape", "value", "json"),
        is_artifact,
        "of an artifact, only its bytes are checked",
        "`tessella check MODEL` checks the model that it was made of",
    ),
    Useless(
        ("shape", "value"),
        lambda args: stage_of(args.model) is not None,
        "a stage was made for its shapes and values",
        "give these options to `tessella compile`, which wrote it",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    add_values(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 for a model that is supported, 1 where something is not.

    Raises TessellaError for what is no model, for shapes that do not fit together, and for an
    artifact that is damaged.
    """
    if Path(args.model).suffix == ARTIFACT:
        load(args.model).check()
        print("whole")
        return 0
    issues, unknown = _checked(args)
    if args.json:
        listed = [asdict(issue) for issue in issues]
        print(json.dumps({"supported": not issues, "issues": listed}, indent=2))
    elif issues:
        print(f"{len(issues)} unsupported {'thing' if len(issues) == 1 else 'things'}:")
        print(*(f"  {issue}" for issue in issues), sep="\n")
    elif unknown:
        print(f"supported; not checked: shapes, {unknown}")
    else:
        print("supported")
    return int(bool(issues))


def _checked(args: argparse.Namespace) -> tuple[Sequence[Unsupported], str]:
    """What is not supported; and why shapes cannot be checked, if they cannot."""
    if stage_of(args.model) is not None:
        load_stage(args.model)
        return (), ""
    try:
        source = open_source(args.model)
        values = values_of(source.inputs, args.value)
        known = shapes_of(source.inputs, args.shape)
        known |= {name: value.shape for name, value in values.items()}
        symbolic = [info.name for info in source.inputs if info.name not in known]
        if symbolic:
            has = "has" if len(symbolic) == 1 else "have"
            return (), f"as {_listed(symbolic)} {has} symbolic dimensions (--shape)"
        source.graph(known, values)
    except UnsupportedError as error:
        return error.issues, ""
    except UnknownValueError as error:
        if not error.names:
            raise
        return (), f"which depend on the values of {_listed(error.names)} (--value)"
    return (), ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
