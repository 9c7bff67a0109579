"""`tessella quantize`: convert a float32 model to 8 bits, and report each op's error and speed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tessella.driver.stages.stages import stage_of
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.tools.commands.numbers import amount
from tessella.tools.commands.shared import add_options, given_options
from tessella.tools.commands.useless import COMPILING, Useless

EPILOG = """\
data.npz has an array for each input of the model, by its name: samples along the first dimension,
then the dimensions of the input. The table has the error of each node's value where all that it
reads is exact (own error) and in the quantised model (error), and its time in f32 and narrow.

  tessella quantize model.onnx --calibrate data.npz -o model.int8.onnx
  tessella quantize model.onnx --calibrate data.npz --error-budget 0.02     the worst ops stay f32
  tessella quantize model.onnx --calibrate data.npz --exclude head --activations s8 --json
  tessella quantize encoder.onnx --dynamic                                  ranges found in each run
"""

USELESS = (
    Useless(
        ("json", *COMPILING),
        lambda args: args.no_report or not args.calibrate,
        "no report is written",
        "a report needs --calibrate, and no --no-report",
    ),
    Useless(
        ("error_budget",),
        lambda args: not args.calibrate,
        "errors are measured on samples",
        "--calibrate has them",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="an .onnx file, in float32")
    parser.add_argument(
        "--calibrate", metavar="DATA.npz", help="samples of the inputs; needed without --dynamic"
    )
    parser.add_argument(
        "-o", dest="output", metavar="FILE", help="the file to write (MODEL's name with .int8.onnx)"
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for a whole weight, instead of one for each channel",
    )
    parser.add_argument(
        "--activations", default="u8", metavar="u8|s8", help="the element of activations (u8)"
    )
    parser.add_argument(
        "--dynamic", action="store_true", help="find the ranges of activations in each run"
    )
    parser.add_argument(
        "--exclude",
        type=_separated,
        default=[],
        metavar="NODE,..",
        help="nodes that stay in float32",
    )
    parser.add_argument(
        "--error-budget",
        type=amount,
        metavar="E",
        help="leave the worst nodes in float32 until the error of the outputs is at most E: the "
        "norm of the difference over the norm of the output in float32",
    )
    parser.add_argument("--no-report", action="store_true", help="write the file, measure nothing")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_options(parser, left_out=("dim",))


def run(args: argparse.Namespace) -> int:
    """Write the quantised model, and print the report. Returns 0."""
    if stage_of(args.model) is not None:
        raise OptionError(
            "a stage is not an ONNX model", where=args.model, expected="an .onnx file"
        )
    output = Path(args.output or f"{Path(args.model).stem}.int8.onnx")
    if output.resolve() == Path(args.model).resolve():
        raise OptionError("this would overwrite the model", hint="-o names the file")
    if not args.calibrate and not args.dynamic:
        raise OptionError(
            "ranges of activations come from samples",
            expected="--calibrate DATA.npz, or --dynamic",
        )
    source = open_source(args.model)  # opened before the imports: reports a missing package onnx
    from tessella.tools.quantize import quantize
    from tessella.tools.quantize.samples import read_samples

    quantized = quantize(
        args.model,
        read_samples(args.calibrate, source.inputs) if args.calibrate else (),
        per_channel=not args.per_tensor,
        activations=args.activations,
        dynamic=args.dynamic,
        exclude=args.exclude,
        error_budget=args.error_budget,
    )
    quantized.save(output)
    if args.calibrate and not args.no_report:
        report = quantized.report(**given_options(args))
        print(report.to_json() if args.json else report)
    if not args.json:
        print(f"wrote {output}{_left(quantized.left_wide)}")
    return 0


def _left(nodes: Sequence[str]) -> str:
    return f", with {', '.join(nodes)} in float32" if nodes else ""


def _separated(text: str) -> list[str]:
    return text.split(",")
