"""`tessella check`: everything in a model that is not supported, the ops that NumPy runs, and the
integrity of artifacts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tessella.dialects.graph import Graph
from tessella.driver.build.build import lower
from tessella.driver.explain.explain import explain
from tessella.driver.model.executable import python_steps
from tessella.driver.options import CheckedOptions
from tessella.driver.stages.stages import ARTIFACT, IR_STAGES, stage_of
from tessella.runtime.explain_native import Coverage
from tessella.runtime.explain_types import OpEntry
from tessella.runtime.loaded import load
from tessella.support.errors import UnknownValueError, Unsupported, UnsupportedError
from tessella.tools.commands.dims import is_open, known_shapes, open_graph
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_values,
    opened,
    options_of,
)
from tessella.tools.commands.useless import COMPILED, SAME_CODE, Useless, is_artifact

USELESS = (
    COMPILED,
    SAME_CODE,
    Useless(
        ("shape", "value"),
        is_artifact,
        "of an artifact, only its bytes are checked",
        "`tessella check MODEL` checks the model that it was made of",
    ),
    Useless(
        ("shape", "value", "dim"),
        lambda args: stage_of(args.model) is not None,
        "a stage was made for its shapes and values",
        "give these options to `tessella compile`, which wrote it",
    ),
)


@dataclass(frozen=True)
class _Checked:
    """The findings of `tessella check` about a model."""

    issues: Sequence[Unsupported] = ()
    not_checked: str = ""
    """What could not be checked, and why."""
    ops: int | None = None
    """The number of ops; None if kernels could not be picked."""
    coverage: Coverage | None = None
    """The share of ops that run in native code; None if kernels could not be picked."""
    reference: Sequence[Unsupported] = ()
    """The ops that run in NumPy, and why."""

    def json(self) -> str:
        return json.dumps({"supported": not self.issues, **asdict(self)}, indent=2)

    def lines(self) -> Iterator[str]:
        """Yield the findings as lines of text."""
        if self.issues:
            yield f"{_counted(len(self.issues), 'unsupported thing')}:"
        elif self.ops is None:
            yield f"supported; not checked: {self.not_checked}"
        elif self.coverage is None or not self.ops:
            yield "supported"
        else:
            yield f"supported; {self.coverage.headline()}{':' * bool(self.coverage.in_numpy)}"
            yield from (f"  {line}" for line in self.coverage.lines())
        yield from (f"  {each}" for each in self.issues)
        if self.reference:
            yield "why NumPy runs them:"
        yield from (f"  {each}" for each in self.reference)
        if self.ops is not None and self.not_checked:
            yield f"not checked: {self.not_checked}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_values(parser)
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0 if the model is supported, otherwise 1.

    Raises TessellaError for a file that is not a model, for shapes that do not match, and for a
    damaged artifact.
    """
    if Path(args.model).suffix == ARTIFACT:
        load(args.model).check()
        print(json.dumps({"whole": True}) if args.json else "whole")
        return 0
    found = _checked(args)
    print(found.json() if args.json else "\n".join(found.lines()))
    return int(bool(found.issues))


def _checked(args: argparse.Namespace) -> _Checked:
    try:
        source = opened(args)
        if is_open(args):
            return _picked(open_graph(source, args), options_of(args))
        known = known_shapes(source.inputs, args)
        symbolic = [info.name for info in source.inputs if info.name not in known]
        if symbolic:
            has = "has" if len(symbolic) == 1 else "have"
            why = f"as {_listed(symbolic)} {has} symbolic dimensions (--shape)"
            return _Checked(not_checked=f"shapes and kernels, {why}")
        return _picked(source.graph(known), options_of(args))
    except UnsupportedError as error:
        return _Checked(error.issues)
    except UnknownValueError as error:
        if not error.names:
            raise
        why = f"which depend on the values of {_listed(error.names)} (--value)"
        return _Checked(not_checked=f"shapes and kernels, {why}")


def _picked(graph: Graph, options: CheckedOptions) -> _Checked:
    """Pick the kernels of a program, and return the findings. If the program has a graph break, the
    findings are about its first subprogram."""
    later = "" if graph.rest is None else ", ".join(step.title for step in graph.rest.steps)
    stop = max("placed", graph.stage, key=IR_STAGES.index)
    explanation = explain(lower(graph, options, start=graph.stage, stop=stop).stages)
    if graph.rest is not None:
        explanation = replace(explanation, continuation=python_steps(graph.rest.steps))
    reference = [
        Unsupported(each["op"], each["node"], _reason(each))
        for each in explanation.ops
        if not each["native"]
    ]
    cut = f"kernels after {later}, which tells the shapes of what follows" if later else ""
    covered = explanation.coverage
    return _Checked(not_checked=cut, ops=covered.ops, coverage=covered, reference=reference)


def _reason(entry: OpEntry) -> str:
    """Return why NumPy runs an op."""
    if entry["runner_up"] is not None:
        return "it is estimated to be the fastest"
    refused = (
        f"{each['kernel']} at {each['place']}: {each['reason']}" for each in entry["rejected"]
    )
    return "; ".join(refused) or "it has no native kernel"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
