"""The report of `tessella diff` about a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from tessella.dialects.nn.core import Array
from tessella.runtime.elements import dtype_name, widened
from tessella.runtime.explain_types import OpEntry
from tessella.tools.first_difference import Finding
from tessella.tools.onnx_values import Arrays, OnnxGraph

Described = Mapping[str, Any]


def as_json(finding: Finding, graph: OnnxGraph, feeds: Arrays) -> Described:
    """Return the report as a dictionary for JSON. It has only the keys ``same`` and ``outputs`` if
    nothing differs."""
    report: dict[str, Any] = {"same": not finding.outputs, "outputs": finding.outputs}
    if finding.outputs:
        node = graph.node_of(finding.value)
        report |= {
            "node": node.name,
            "op": node.op,
            "value": finding.value,
            "difference": finding.difference,
            "fused": finding.fused,
            "shown": finding.shown,
            "inputs": inputs(finding, graph, feeds),
            "kernels": kernels(finding, graph),
        }
    return report


def lines(finding: Finding, graph: OnnxGraph, feeds: Arrays, against: str) -> Iterator[str]:
    """Yield the report as text."""
    if not finding.outputs:
        yield f"the outputs are those of {against}"
        return
    yield f"outputs that differ from those of {against}:"
    yield from _indented(f"{name}: {text}" for name, text in finding.outputs.items())
    node = graph.node_of(finding.value)
    if finding.fused:
        yield f"the first kernel that differs computes the nodes {', '.join(finding.fused)}"
        yield "  each of them is right where its value is an output, and so not fused"
    else:
        yield f"the first node that differs is {node.name!r} ({node.op})"
    if finding.difference is not None:
        yield from _indented([f"its output {finding.value}: {finding.difference}"])
    elif not finding.fused:
        yield f"  its output {finding.value} is right where what it reads is an output too"
    yield "what it reads:"
    yield from _indented(_text(described) for described in inputs(finding, graph, feeds))
    yield "what runs it in the model as it is:"
    rows = kernels(finding, graph)
    texts = [f"{r['kernel']} at {r['place']}, for {r['op']} of {r['node']!r}" for r in rows]
    yield from _indented(texts or ["nothing: it was computed at compile time, or is only named"])
    shown = ", ".join(finding.shown)
    yield f"looked at with more outputs than the model has, which keeps fusions from them: {shown}"


def kernels(finding: Finding, graph: OnnxGraph) -> list[dict[str, Any]]:
    """Return the op, node, kernel, place and group of each op in the groups that compute the node
    at fault."""
    names = {graph.node_of(finding.value).name, *finding.fused}
    for fusion in finding.explanation.fusions:
        nodes = {consumed.partition("@")[2] for consumed in fusion["consumed"]}
        if nodes & names:
            names.add(fusion["node"])
    ops = finding.explanation.ops
    groups = {entry["group"] for entry in ops if _is_of(entry, names)}
    keys = ("op", "node", "kernel", "place", "group")
    return [{key: e[key] for key in keys} for e in ops if e["group"] in groups]


def _is_of(entry: OpEntry, names: set[str]) -> bool:
    """Return whether the op of an entry belongs to one of the nodes ``names``, or to the body of a
    function node among them."""
    return entry["node"] in names or any(entry["node"].startswith(f"{n}/") for n in names)


def inputs(finding: Finding, graph: OnnxGraph, feeds: Arrays) -> list[Described]:
    """Return a description of each value that the node at fault reads, or that its kernel reads if
    only the fused kernel is wrong."""
    weights = {tensor.name: tensor for tensor in graph.model.graph.initializer}
    reads = graph.node_of(finding.value).reads
    if finding.fused:
        nodes = [node for node in graph.nodes if node.name in finding.fused]
        made = {name for node in nodes for name in node.makes}
        reads = tuple(name for node in nodes for name in node.reads if name not in made)
    found: list[Described] = []
    for name in dict.fromkeys(reads):
        if name in finding.found:
            found.append({"name": name, "kind": "computed", **describe(finding.found[name])})
        elif name in feeds:
            found.append({"name": name, "kind": "input", **describe(feeds[name])})
        elif name in weights:
            array = numpy_helper.to_array(weights[name])
            found.append({"name": name, "kind": "weight", **describe(array)})
    return found


def describe(array: Array) -> Described:
    """Return the element type and shape of an array and, for numbers, the range and the number of
    non-finite elements."""
    numbers = np.asarray(widened(array), np.float64) if array.dtype.kind in "biufV" else array
    known: dict[str, Any] = {"dtype": dtype_name(array.dtype), "shape": list(array.shape)}
    if numbers.dtype.kind != "f" or not array.size:
        return known
    broken = np.argwhere(~np.isfinite(numbers))
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        known |= {"min": float(finite.min()), "max": float(finite.max())}
    if len(broken):
        known |= {
            "nan": int(np.isnan(numbers).sum()),
            "infinite": int(np.isinf(numbers).sum()),
            "first_not_finite": broken[0].tolist(),
        }
    return known


def _text(described: Described) -> str:
    shape = ", ".join(map(str, described["shape"]))
    text = f"{described['kind']} {described['name']}: {described['dtype']} [{shape}]"
    if "min" in described:
        text += f" from {described['min']:.6g} to {described['max']:.6g}"
    if "nan" in described:
        text += f", {described['nan']} NaN and {described['infinite']} infinite"
        text += f", the first at {described['first_not_finite']}"
    return text


def _indented(texts: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield from (f"  {line}" for text in texts for line in text.splitlines())
