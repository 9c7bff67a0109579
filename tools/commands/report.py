"""`tessella report`: a page, or JSON, about a model: its graph, kernels, code, times and memory."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tessella.dialects.nn.core import Array
from tessella.driver.build.build import lower
from tessella.driver.model.model import Model
from tessella.driver.report.collect import with_model_hash, with_others, with_passes
from tessella.driver.report.data import OtherRuntime, Pass, Report, write
from tessella.driver.report.files import read_report
from tessella.driver.report.page import page
from tessella.driver.report.passes import PassRecorder
from tessella.frontends.compile import open_source
from tessella.support import disk
from tessella.support.errors import OptionError
from tessella.tools.commands.bench import check_peers, peer_names
from tessella.tools.commands.dims import open_graph, openness_of
from tessella.tools.commands.inputs import add_inputs, feeds_of
from tessella.tools.commands.shared import add_model, add_options, options_of
from tessella.tools.commands.useless import Useless, is_artifact
from tessella.tools.peer_nodes import other_runtime
from tessella.tools.progress import shown

EPILOG = """\
  tessella report model.onnx -o report.html             open it in a browser
  tessella report model.onnx --against onnxruntime      with another runtime's time of each node
  tessella report model.onnx --json -o a.json           the same as JSON
  tessella report --compare a.json b.json -o both.html  two reports side by side
"""

USELESS = (
    Useless(
        ("input", "shape", "dim", "threads", "against", "json"),
        lambda args: args.compare is not None,
        "--compare compiles and measures nothing",
        "give these options to the commands that wrote the two reports",
    ),
    Useless(
        ("input", "against"),
        lambda args: args.no_run,
        "--no-run measures nothing",
        "leave --no-run out",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser, optional=True)
    add_inputs(parser)
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="the file to write (MODEL.html, or MODEL.json)"
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of a page")
    parser.add_argument(
        "--no-run", action="store_true", help="measure nothing: all times are estimates"
    )
    parser.add_argument(
        "--against",
        type=peer_names,
        default=[],
        metavar="A,B",
        help="other runtimes whose times stand beside",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("A.json", "B.json"),
        help="show two reports side by side, which --json wrote",
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the report. Returns 0."""
    _check(args)
    if args.compare is not None:
        output = Path(args.output or "compared.html")
        _write(output, page([read_report(path) for path in args.compare]))
        return 0
    kind = ".json" if args.json else ".html"
    output = Path(args.output or Path(args.model).with_suffix(kind).name)
    report = _report(args)
    _write(output, report.json() if args.json else page([json.loads(report.json())]))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise OptionError if the arguments request an impossible report, before anything is
    compiled."""
    if (args.model is None) == (args.compare is None):
        raise OptionError(
            "a report is about a model, or compares two reports",
            expected="MODEL, or --compare A.json B.json",
        )
    if is_artifact(args):
        raise OptionError(
            "an artifact has no stages to report on",
            where=args.model,
            hint="`tessella report MODEL` reports on the model that it was made of",
        )
    check_peers(args)


def _report(args: argparse.Namespace) -> Report:
    name = Path(args.model).stem
    # without the caches, the times of all passes are known
    with shown(wanted=not args.verbose) as progress, disk.off():
        source = open_source(args.model)
        feeds = feeds_of(source.inputs, args)
        model = Model(source, options_of(args), progress, openness_of(args))
        model.run(None, feeds)
        progress("the report")
        report = model.report(None if args.no_run else feeds, name=name)
        report = with_passes(report, *_passes(args))
    report = with_model_hash(report, _digest(Path(args.model)))
    return with_others(report, _others(args, feeds, model.threads))


def _passes(args: argparse.Namespace) -> tuple[Sequence[Pass], Mapping[str, float]]:
    """Return the passes of the compilation, which runs again under observation, and their times."""
    recorder = PassRecorder()
    graph = open_graph(open_source(args.model), args)
    lowered = lower(graph, options_of(args), start=graph.stage, observer=recorder)
    return recorder.passes, lowered.timings


def _others(
    args: argparse.Namespace, feeds: Mapping[str, Array], threads: int
) -> Sequence[OtherRuntime]:
    path = Path(args.model)
    return [other_runtime(name, path, feeds, threads) for name in args.against]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: str) -> None:
    write(path, text)
    print(f"wrote {path}")
