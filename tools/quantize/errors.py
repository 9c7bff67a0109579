"""Errors of a quantised model relative to the float32 model.

An error is the norm of the difference over the norm of the float32 value, over all samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tessella.dialects.nn.core import Array
from tessella.driver.model.model import Model
from tessella.driver.options import CheckedOptions
from tessella.frontends.compile import open_source
from tessella.tools.onnx_values import Arrays, OnnxGraph
from tessella.tools.quantize.samples import Sample

MOST = 4
"""The most samples that errors are measured on."""


class Comparison:
    """The comparison of quantised models with their float32 model, on the first samples with the
    shapes of the first one."""

    def __init__(self, wide: OnnxGraph, samples: Sequence[Sample], options: CheckedOptions) -> None:
        self._wide = wide
        self._options = options
        alike = [sample for sample in samples if _shapes(sample) == _shapes(samples[0])]
        self._samples = alike[:MOST]
        self._outputs = _all_values(wide, wide.outputs, self._samples, options)
        self._values: list[Arrays] | None = None

    @property
    def count(self) -> int:
        """The number of samples used."""
        return len(self._samples)

    def output_error(self, narrow: onnx.ModelProto) -> float:
        """Return the largest error of an output of the quantised model ``narrow``."""
        graph = OnnxGraph(narrow)
        found = _all_values(graph, graph.outputs, self._samples, self._options)
        pairs = {name: (name, name) for name in graph.outputs}
        return max(_errors(pairs, found, self._outputs).values(), default=0.0)

    def total_errors(self, narrow: onnx.ModelProto) -> Mapping[str, float]:
        """Return the error of each node's value when the whole model is quantised."""
        graph = OnnxGraph(narrow)
        pairs = self._pairs(graph)
        names = [name for name, _ in pairs.values()]
        return _errors(
            pairs, _all_values(graph, names, self._samples, self._options), self._known()
        )

    def own_errors(self, narrow: onnx.ModelProto) -> Mapping[str, float]:
        """Return the error of each node's value when its inputs are those of the float32 model."""
        graph, known = OnnxGraph(narrow), self._known()
        pairs = self._pairs(graph)
        names = [name for name, _ in pairs.values()]
        cut, given = _with_given_values(graph, known[0], names)
        model = Model(open_source(cut), self._options)
        found: list[Arrays] = []
        for sample, values in zip(self._samples, known, strict=True):
            more = {replaced: values[name] for name, replaced in given.items()}
            feeds = {info.name: (dict(sample) | more)[info.name] for info in model.inputs}
            found.append(dict(zip(dict.fromkeys(names), model.run(None, feeds), strict=True)))
        return _errors(pairs, found, known)

    def _known(self) -> list[Arrays]:
        """Return the float32 values that the nodes of the float32 model compute, for each
        sample."""
        if self._values is None:
            first = [node.makes[0] for node in self._wide.nodes if node.makes]
            found = _all_values(self._wide, first, self._samples, self._options)
            self._values = [_floats(values) for values in found]
        return self._values

    def _pairs(self, narrow: OnnxGraph) -> Mapping[str, tuple[str, str]]:
        """Return, by node, the names of two values: the node's value in the quantised model before
        requantisation, and its value in the float32 model."""
        own = {node.name: node.makes[0] for node in narrow.nodes if node.makes}
        names = {node.name for node in self._wide.nodes}
        pairs: dict[str, tuple[str, str]] = {}
        for node in self._wide.nodes:
            value = node.makes[0] if node.makes else ""
            if value not in self._known()[0]:
                continue
            if node.name in own:
                pairs[node.name] = own[node.name], value
            elif value in narrow.maker and narrow.node_of(value).name not in names:
                pairs[node.name] = value, value  # several nodes compute the value, on integers
        return pairs


def _shapes(sample: Sample) -> Mapping[str, tuple[int, ...]]:
    return {name: array.shape for name, array in sample.items()}


def _floats(values: Arrays) -> Arrays:
    return {name: array for name, array in values.items() if array.dtype == np.float32}


def _all_values(
    graph: OnnxGraph, names: Sequence[str], samples: Sequence[Sample], options: CheckedOptions
) -> list[Arrays]:
    """Return the values ``names`` and the outputs of a model, by name, for each sample."""
    model = Model(open_source(graph.with_outputs(names)), options)
    outputs = [info.name for info in model.outputs]
    return [dict(zip(outputs, model.run(None, sample), strict=True)) for sample in samples]


def _with_given_values(
    graph: OnnxGraph, values: Arrays, outputs: Sequence[str]
) -> tuple[onnx.ModelProto, Mapping[str, str]]:
    """Return the model with inputs instead of ``values``, and with ``outputs`` as its outputs.

    Also returns the name of each new input, by the name of the value that it replaces.
    """
    cut = onnx.ModelProto()
    cut.CopyFrom(graph.model)
    given = {name: f"{name}/given" for name in values}
    read = {name for node in cut.graph.node for name in node.input}
    for node in cut.graph.node:
        node.input[:] = [given.get(name, name) for name in node.input]
    del cut.graph.output[:]
    del cut.graph.value_info[:]
    cut.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(outputs))
    given = {name: replaced for name, replaced in given.items() if name in read}
    cut.graph.input.extend(_f32(given[name], values[name]) for name in given)
    return cut, given


def _f32(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape)


def _errors(
    pairs: Mapping[str, tuple[str, str]], found: Sequence[Arrays], expected: Sequence[Arrays]
) -> Mapping[str, float]:
    """Return the error of each pair over all samples. A pair has the names of a computed value,
    which is in ``found``, and of its expected value, which is in ``expected``."""
    differences: dict[str, float] = defaultdict(float)
    sizes: dict[str, float] = defaultdict(float)
    for ours, theirs in zip(found, expected, strict=True):
        for name, difference, size in _squares(pairs, ours, theirs):
            differences[name] += difference
            sizes[name] += size
    return {name: _ratio(differences[name], sizes[name]) for name in differences}


def _squares(
    pairs: Mapping[str, tuple[str, str]], found: Arrays, expected: Arrays
) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each pair, the squared norm of its difference, and that of its expected
    value."""
    for name, (ours, theirs) in pairs.items():
        wanted = np.asarray(expected[theirs], np.float64)
        difference = np.asarray(found[ours], np.float64) - wanted
        yield name, float(np.vdot(difference, difference)), float(np.vdot(wanted, wanted))


def _ratio(difference: float, size: float) -> float:
    """Return the relative error from squared norms; infinite if a value should be 0 and is not."""
    if difference == 0:
        return 0.0
    return math.sqrt(difference / size) if size else math.inf
