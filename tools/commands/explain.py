"""`tessella explain`: which kernel runs each op of a model, and where."""

from __future__ import annotations

import argparse

from tessella.driver.build import lower
from tessella.driver.compile import make_options
from tessella.driver.explain import explain
from tessella.driver.pipeline import IR_STAGES
from tessella.frontends.compile import open_source
from tessella.tools.commands.shared import add_model, add_options, open_graph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the explanation; no code is generated."""
    graph = open_graph(open_source(args.model), args.shape)
    stop = max("placed", graph.stage, key=IR_STAGES.index)
    lowered = lower(graph, make_options(args.places, args.target), start=graph.stage, stop=stop)
    explanation = explain(lowered.stages)
    print(explanation.json() if args.json else explanation)
    return 0
