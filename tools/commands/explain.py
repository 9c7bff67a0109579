"""`tessella explain`: which kernel runs each op of a model, and where; and why it is tiled as it
is."""

from __future__ import annotations

import argparse

from tessella.driver.build import lower
from tessella.driver.explain import explain
from tessella.driver.explain_tiles import explain_tiles
from tessella.driver.stages import IR_STAGES
from tessella.frontends.compile import open_source
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_values,
    open_graph,
    options_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    add_values(parser)
    add_options(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="print JSON")
    what.add_argument(
        "--tiles",
        nargs="?",
        const="",
        metavar="KERNEL",
        help="print why the kernels, or those whose names begin so, are tiled as they are",
    )
    parser.add_argument(
        "--barriers",
        action="store_true",
        help="print too how kernels are divided between threads, and where these wait",
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation; no code is generated."""
    graph = open_graph(open_source(args.model), args)
    if args.tiles is not None:
        for line in explain_tiles(graph, options_of(args), args.tiles):
            print(line)
        return 0
    stop = max("loops" if args.barriers else "placed", graph.stage, key=IR_STAGES.index)
    lowered = lower(graph, options_of(args), start=graph.stage, stop=stop)
    explanation = explain(lowered.stages)
    print(explanation.json() if args.json else explanation)
    return 0
