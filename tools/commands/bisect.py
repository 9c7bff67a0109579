"""`tessella bisect`: find the first pass that changes a model's results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import Array
from tessella.dialects.printing import to_text
from tessella.driver.build.pipeline_text import pipeline_text
from tessella.driver.debug import bisect
from tessella.driver.debug.bisect import Culprit, State
from tessella.driver.model.model import Model
from tessella.driver.model.subprograms import whole
from tessella.driver.specialise.by_value import specialised
from tessella.driver.stages.stage_file import save_stage
from tessella.driver.tune.single_kernels import WrongKernel, wrong_kernel
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.support.ir_diff import ir_diff
from tessella.tools.commands.compare import add_tolerance, beyond_rounding
from tessella.tools.commands.dims import check_one_size
from tessella.tools.commands.inputs import add_inputs, feeds_of
from tessella.tools.commands.numbers import count
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    check_stage_ahead,
    options_of,
)
from tessella.tools.commands.useless import Useless

EPILOG = """\
The program is run in NumPy after each pass that halving the list asks for: ops by their NumPy
kernels, statements point by point. Where no pass up to the stage `tile` changes a result, native
code is compared too. The exit code is 1 where something changes a result, else 0.

  tessella bisect model.onnx
  tessella bisect model.onnx --input x=@x.npy --target avx2
  tessella bisect model.onnx -o culprit       # before.mlir and after.mlir, with their weights
"""


USELESS = (
    Useless(
        ("lines",),
        lambda args: args.json,
        "JSON has all lines of what the pass changed",
        "leave --lines out",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_inputs(parser)
    add_tolerance(parser)
    parser.add_argument(
        "-o", dest="output", metavar="FOLDER", help="write the program before and after the pass"
    )
    parser.add_argument(
        "--lines",
        type=count,
        default=40,
        metavar="N",
        help="the most lines of the pass's changes to print (40)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0 if neither a pass nor native code changes a result beyond rounding, otherwise 1."""
    check_one_size(args)
    source, options = open_source(args.model), options_of(args)
    feeds = feeds_of(source.inputs, args)
    graph, feeds = specialised(source, feeds)
    whole(graph)
    check_stage_ahead(graph.stage, bisect.LAST)
    found = bisect.states(graph, options)
    expected = interpret(found[0].graph, feeds)
    names = [info.name for info in source.outputs]

    def verdict(outputs: Sequence[Array]) -> str | None:
        return _differences(names, outputs, expected, args.tolerance)

    culprit = bisect.bisect(found, feeds, verdict, _tell)
    if culprit is not None:
        if args.output is not None:
            _write(culprit, Path(args.output))
        _report(_of_pass(culprit, len(found) - 1, args.lines), args.json)
        return 1
    wrong = verdict(Model(source, options).run(None, feeds))
    kernel = None
    if wrong is not None:

        def compare(y: Array, wanted: Array) -> str | None:
            return beyond_rounding(y, wanted, args.tolerance)

        kernel = wrong_kernel(found[-1].graph, feeds, options, compare)
    _report(_of_code(wrong, kernel, len(found) - 1), args.json)
    return int(wrong is not None)


def _of_code(wrong: str | None, kernel: WrongKernel | None, passes: int) -> Mapping[str, object]:
    """Return the report if no pass changes the results: whether native code changes them, and the
    first kernel that is wrong alone."""
    same = f"none of {passes} passes to the stage {bisect.LAST!r} changes a result beyond rounding"
    if wrong is None:
        return {"pass": None, "native": None, "text": f"{same}, nor does native code"}
    text = f"{same}, but native code does\n{_indented(wrong)}\n"
    if kernel is None:
        text += "each kernel alone is right: the fault is in the segments, or in the arena"
    else:
        text += (
            f"the first kernel that is wrong by itself is @{kernel.name}, which computes the nodes "
            f"{', '.join(kernel.nodes) or '(none)'}\n{_indented(kernel.difference)}"
        )
    listed = None if kernel is None else vars(kernel)
    return {"pass": None, "native": wrong, "kernel": listed, "text": text}


def _of_pass(culprit: Culprit, passes: int, lines: int) -> Mapping[str, object]:
    """Return the report on a pass that changes a result. Its text shows at most ``lines`` lines
    that the pass changed."""
    step, plugin = culprit.after.step, culprit.after.plugin
    assert step is not None
    changed = [*ir_diff(_text(culprit.before), _text(culprit.after)), *_other_weights(culprit)]
    spec = pipeline_text([step])
    stage = culprit.after.graph.stage
    text = [
        f"the pass {step.name!r}, number {culprit.number} of {passes}, on the way to the stage "
        f"{stage!r}, changes a result beyond rounding",
        *([f"  it is from the package {plugin.package!r}: {plugin.value}"] if plugin else []),
        _indented(culprit.difference),
        "what it changed:",
        *(f"  {line}" for line in islice(changed, lines)),
        *([f"  ... {len(changed) - lines} lines more: --lines"] if len(changed) > lines else []),
    ]
    return {
        "pass": step.name,
        "spec": spec,
        "number": culprit.number,
        "passes": passes,
        "stage": stage,
        "package": plugin.package if plugin else None,
        "difference": culprit.difference,
        "changed": changed,
        "text": "\n".join(text),
    }


def _report(found: Mapping[str, object], as_json: bool) -> None:
    if as_json:
        print(json.dumps({k: v for k, v in found.items() if k != "text"}, indent=2))
    else:
        print(found["text"])


def _differences(
    names: Sequence[str],
    outputs: Sequence[Array],
    expected: Sequence[Array],
    tolerance: float | None,
) -> str | None:
    """Return how outputs differ beyond rounding; None if they do not."""
    found = (
        (name, beyond_rounding(y, wanted, tolerance))
        for name, y, wanted in zip(names, outputs, expected, strict=True)
    )
    return "\n".join(f"{name}: {text}" for name, text in found if text is not None) or None


def _tell(state: State, wrong: str | None) -> None:
    """Print a line of progress about a state that was run; ``wrong`` is None if its outputs are
    right."""
    name = "the beginning" if state.step is None else state.step.name
    print(f"after {name}: {'as before' if wrong is None else 'different'}", file=sys.stderr)


def _other_weights(culprit: Culprit) -> Iterator[str]:
    """Yield the weights whose values changed under the same name."""
    before, after = culprit.before.graph.weights, culprit.after.graph.weights
    for name in before:
        old, new = before[name], after.get(name)
        if new is not None and new is not old and new.tobytes() != old.tobytes():
            yield f"the values of the weight @{name}"


def _text(state: State) -> str:
    return to_text(state.graph.module)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _write(culprit: Culprit, folder: Path) -> None:
    """Write the program before and after the pass, for `tessella-opt`."""
    try:
        for name, state in (("before", culprit.before), ("after", culprit.after)):
            folder.mkdir(parents=True, exist_ok=True)
            save_stage(folder / f"{name}.mlir", state.graph.module, state.graph.weights)
    except OSError as error:
        raise OptionError(f"cannot write: {error.strerror or error}", where=str(folder)) from error
