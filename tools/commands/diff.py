"""`tessella diff`: the first node of an ONNX model whose value differs from another
implementation's."""

from __future__ import annotations

import argparse
import json
import sys

from tessella.dialects.nn.core import Array
from tessella.driver.stages.stages import stage_of
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.tools.commands.compare import add_tolerance, beyond_rounding
from tessella.tools.commands.dims import check_one_size
from tessella.tools.commands.inputs import add_inputs, feeds_of
from tessella.tools.commands.shared import add_model, add_options, options_of

ORACLES = ("onnxruntime", "reference", "numpy")

EPILOG = """\
The model runs as it is first. Where its outputs differ, values inside it become outputs of a copy,
a few at a time: first those that kernels write anyway, then those inside the kernel at fault. A
node is named when it differs and all that it reads does not. The exit code is 1 where something
differs, else 0.

  tessella diff model.onnx                                    against ONNX Runtime
  tessella diff model.onnx --against reference                onnx.reference, slow and plain
  tessella diff model.onnx --against numpy --input x=@x.npy   our NumPy kernels, before any pass
  tessella diff model.onnx --target avx2 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument(
        "--against",
        choices=ORACLES,
        default="onnxruntime",
        help="the reference to compare with (onnxruntime)",
    )
    add_tolerance(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0 if the outputs agree, otherwise 1."""
    if stage_of(args.model) is not None:
        raise OptionError(
            "a stage has no nodes of ONNX",
            where=args.model,
            hint="`tessella bisect` compares it with NumPy",
        )
    check_one_size(args)
    source = open_source(args.model)  # this reports a missing package onnx
    from tessella.frontends.onnx import load_model
    from tessella.tools.diff_report import as_json, lines
    from tessella.tools.first_difference import Search
    from tessella.tools.onnx_values import OnnxGraph, Tessella, oracle

    feeds = feeds_of(source.inputs, args)
    graph = OnnxGraph(load_model(args.model))

    def compare(found: Array, expected: Array) -> str | None:
        return beyond_rounding(found, expected, args.tolerance)

    ours = Tessella(graph, feeds, options_of(args))
    finding = Search(graph, ours, oracle(args.against, graph, feeds), compare, _tell).run()
    if args.json:
        print(json.dumps(as_json(finding, graph, feeds), indent=2))
    else:
        print(*lines(finding, graph, feeds, args.against), sep="\n")
    return int(bool(finding.outputs))


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
