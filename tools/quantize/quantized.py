"""``tessella.quantize``: converts a float32 ONNX model to 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import numpy.typing as npt
import onnx

from tessella.driver.model.model import Model
from tessella.driver.options import CompileOptions, make_options
from tessella.frontends.compile import open_source
from tessella.frontends.onnx import load_model
from tessella.support.errors import InputError, OptionError
from tessella.support.names import did_you_mean
from tessella.tools.onnx_values import OnnxGraph, OnnxNode
from tessella.tools.quantize.errors import Comparison
from tessella.tools.quantize.prepare import prepared
from tessella.tools.quantize.report import NodeReport, QuantizeReport, seconds_by_node
from tessella.tools.quantize.samples import Sample, checked
from tessella.tools.quantize.scheme import Quantizer, Scheme

_TO_FLOAT = "DequantizeLinear"


@dataclass(frozen=True)
class Quantized:
    """The result of a quantization: the quantised model, and what it was made from."""

    model: onnx.ModelProto
    """The model with 8 bits."""
    wide: onnx.ModelProto
    """The float32 model after simplification: batch norms are folded, and nodes are named."""
    left_wide: tuple[str, ...]
    """The nodes left in float32: excluded ones, and those that ``error_budget`` required."""
    samples: tuple[Sample, ...]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the quantised model to an ONNX file. Raises OptionError if the file cannot be
        written."""
        try:
            Path(path).write_bytes(self.model.SerializeToString())
        except OSError as error:
            raise OptionError(
                f"cannot write the model: {error.strerror or error}", where=fspath(path)
            ) from error

    def report(self, **options: Unpack[CompileOptions]) -> QuantizeReport:
        """Compile both models, run them on the samples, and compare all nodes.

        Parameters
        ----------
        **options
            ``places``, ``target``, ``threads``, ``fallback``, ``timeout`` and ``options``, as
            ``tessella.compile`` takes them.

        Returns
        -------
        Report
            Errors and times, node by node.

        Raises
        ------
        InputError
            If there are no samples.
        OptionError
            If an option is wrong.
        """
        if not self.samples:
            raise InputError("a report needs data", hint="give calibration data")
        given = make_options(**options)
        graph = OnnxGraph(self.wide)
        comparison = Comparison(graph, self.samples, given)
        own, total = comparison.own_errors(self.model), comparison.total_errors(self.model)
        wide = Model(open_source(self.wide), given).profile(self.samples[0])
        narrow = Model(open_source(self.model), given).profile(self.samples[0])
        names = [node.name for node in graph.nodes]
        before, _ = seconds_by_node(wide, names)
        after, conversions = seconds_by_node(narrow, names)
        quantized = narrow_nodes(graph, OnnxGraph(self.model))
        rows = (
            NodeReport(
                name,
                node.op,
                "int8" if name in quantized else "f32",
                own.get(name),
                total.get(name),
                before.get(name),
                after.get(name),
            )
            for name, node in zip(names, graph.nodes, strict=True)
        )
        error = comparison.output_error(self.model)
        return QuantizeReport(
            rows=tuple(rows),
            error=error,
            wide=wide.seconds,
            narrow=narrow.seconds,
            conversions=conversions,
            threads=narrow.threads,
            samples=comparison.count,
        )


def quantize(
    model: str | Path | bytes | onnx.ModelProto,
    calibrate: Sequence[Mapping[str, npt.ArrayLike]] = (),
    *,
    per_channel: bool = True,
    activations: str = "u8",
    dynamic: bool = False,
    exclude: Sequence[str] = (),
    error_budget: float | None = None,
) -> Quantized:
    """Quantise a model in float32 to 8 bits, by the quantiser of ONNX Runtime.

    This needs ``pip install 'tessella[quantize]'``. Weights are signed.

    Parameters
    ----------
    model : str, Path, bytes or onnx.ModelProto
        The path or the bytes of an ONNX file, or a ``ModelProto``.
    calibrate : sequence of dict of array_like
        Samples: the inputs by name. The ranges of activations are those that occur in them.
    per_channel : bool
        Whether a weight has a scale for each channel, instead of one.
    activations : {"u8", "s8"}
        The element of activations.
    dynamic : bool
        Whether ranges are found in each run. Samples then serve ``error_budget`` and the report.
    exclude : sequence of str
        Nodes that stay in float32.
    error_budget : float, optional
        The largest error of an output on the samples: the norm of the difference over the norm of
        the output in float32. Nodes with the largest errors stay in float32, as many as it takes.

    Returns
    -------
    Quantized
        The quantised model, which can be saved, and compared with the one in float32.

    Raises
    ------
    InvalidModelError
        If the file is no model, or breaks the rules of its format.
    UnsupportedError
        If parts of the model are not supported.
    InputError
        If samples are missing, or do not fit the inputs.
    OptionError
        If an option is wrong.
    """
    scheme = Scheme(per_channel=per_channel, activations=activations, dynamic=dynamic)
    scheme.check()
    _check_budget(error_budget)
    source = load_model(model)
    needs_samples = bool(calibrate) or not dynamic or error_budget is not None
    samples = checked(calibrate, open_source(source).inputs) if needs_samples else []
    wide = prepared(source)
    graph = OnnxGraph(wide)
    _check_excluded(exclude, graph)
    with TemporaryDirectory() as folder:
        quantizer = Quantizer(wide, samples, scheme, Path(folder))
        narrow, left = quantizer.quantized(exclude), list(exclude)
        if error_budget is not None:
            comparison = Comparison(graph, samples, make_options())
            narrow, left = _within(error_budget, quantizer, comparison, narrow, left, graph)
    return Quantized(narrow, wide, tuple(left), tuple(samples))


def _check_budget(budget: float | None) -> None:
    if budget is not None and not budget > 0:
        raise OptionError("an error budget is a number above 0", found=repr(budget))


def _check_excluded(names: Sequence[str], graph: OnnxGraph) -> None:
    """Raise OptionError for nodes that the model lacks, or that were folded into others."""
    known = [node.name for node in graph.nodes]
    for name in names:
        if name not in known:
            raise OptionError(
                f"unknown node {name!r} to exclude",
                expected="a node of the model, which is not folded into another",
                hint=did_you_mean(name, known),
            )


def narrow_nodes(wide: OnnxGraph, narrow: OnnxGraph) -> list[str]:
    """Return the names of the nodes that the quantised model computes with 8 bits: they read
    quantised values, or other nodes replace them."""
    found = {node.name: node for node in narrow.nodes}
    return [
        node.name
        for node in wide.nodes
        if node.name not in found or _reads_quantized(found[node.name], narrow)
    ]


def _reads_quantized(node: OnnxNode, graph: OnnxGraph) -> bool:
    makers = (graph.node_of(value).op for value in node.reads if value in graph.maker)
    return any(op == _TO_FLOAT for op in makers)


def _within(
    budget: float,
    quantizer: Quantizer,
    comparison: Comparison,
    narrow: onnx.ModelProto,
    left: Sequence[str],
    graph: OnnxGraph,
) -> tuple[onnx.ModelProto, list[str]]:
    """Return the quantised model with as few of the worst nodes in float32 as the budget requires,
    and the names of all nodes in float32.

    The number of nodes is found by bisection: the error falls, at least roughly, as more nodes stay
    in float32. The returned model is one that was measured.
    """
    if comparison.output_error(narrow) <= budget:
        return narrow, list(left)
    own = comparison.own_errors(narrow)
    worst = sorted((name for name in own if name not in left), key=lambda name: -own[name])
    too_few, enough = 0, len(worst)
    best = quantizer.quantized([*left, *_with_makers(worst, graph)])
    while enough - too_few > 1:
        count = (too_few + enough) // 2
        tried = quantizer.quantized([*left, *_with_makers(worst[:count], graph)])
        if comparison.output_error(tried) <= budget:
            enough, best = count, tried
        else:
            too_few = count
    return best, list(dict.fromkeys([*left, *_with_makers(worst[:enough], graph)]))


def _with_makers(names: Sequence[str], graph: OnnxGraph) -> list[str]:
    """Return the names of nodes, followed by the names of the producers of their operands, which
    would otherwise be rounded to 8 bits."""
    nodes = {node.name: node for node in graph.nodes}
    found = dict.fromkeys(names)
    for name in names:
        reads = (value for value in nodes[name].reads if value in graph.maker)
        found |= dict.fromkeys(graph.node_of(value).name for value in reads)
    return list(found)
