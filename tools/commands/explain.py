"""`tessella explain`: which kernel runs each op of a model, where, and why it has its tiles."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tessella.driver.build.build import lower
from tessella.driver.explain.explain import explain
from tessella.driver.explain.explain_tiles import explain_tiles
from tessella.driver.report.collect import program_graph
from tessella.driver.report.dot import dot_lines
from tessella.driver.stages.stages import ARTIFACT, IR_STAGES
from tessella.runtime import loaded
from tessella.runtime.explanation import Explanation
from tessella.tools.commands.dims import open_graph
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
        ("shape", "value", "tiles", "barriers", "dot"),
        is_artifact,
        "an artifact tells what was known of its programs when they were compiled",
        "`tessella explain MODEL` tells more of the model that it was made of",
    ),
    Useless(
        ("barriers",),
        lambda args: args.dot,
        "the graph is shown without the threads that divide its steps",
        "give --barriers without --dot",
    ),
    Useless(
        ("barriers",),
        lambda args: args.tiles is not None,
        "schedules are told without the threads that divide them",
        "give --barriers without --tiles",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_values(parser)
    add_options(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--why", action="store_true", help="print too why other kernels were not picked"
    )
    what.add_argument("--json", action="store_true", help="print JSON")
    what.add_argument(
        "--dot", action="store_true", help="print the graph of the program's steps, for graphviz"
    )
    what.add_argument(
        "--tiles",
        nargs="?",
        const="",
        metavar="KERNEL",
        help="print the tiling of kernels, with reasons; KERNEL is a prefix of their names",
    )
    parser.add_argument(
        "--barriers",
        action="store_true",
        help="print too how kernels are divided between threads, and where these wait",
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation of the model; no code is generated. Returns 0."""
    if Path(args.model).suffix == ARTIFACT:
        return _shipped(args)
    graph = open_graph(opened(args), args)
    if args.tiles is not None:
        for line in explain_tiles(graph, options_of(args), args.tiles):
            print(line)
        return 0
    wanted = "loops" if args.barriers else "tile" if args.dot else "placed"
    stop = max(wanted, graph.stage, key=IR_STAGES.index)
    lowered = lower(graph, options_of(args), start=graph.stage, stop=stop)
    explanation = explain(lowered.stages)
    if args.dot:
        print(*dot_lines(program_graph(lowered.stages, explanation)), sep="\n")
    else:
        print(_text(explanation, args))
    return 0


def _shipped(args: argparse.Namespace) -> int:
    """Print the explanations in an artifact, which contain the facts known when it was compiled.
    Returns 0."""
    programs = loaded.explain(args.model)
    if args.json:
        print(json.dumps({title: json.loads(each.json()) for title, each in programs}, indent=2))
        return 0
    for title, each in programs:
        print(f"for {title}:\n{_text(each, args)}\n")
    return 0


def _text(explanation: Explanation, args: argparse.Namespace) -> str:
    if args.json:
        return explanation.json()
    return explanation.why() if args.why else str(explanation)
