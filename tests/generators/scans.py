"""Random graphs of ONNX with a Scan: a body of a few ops on what is carried, scanned and around."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from tests.frontends.onnx.models import model, value

Array = npt.NDArray[Any]
SIZE = 3
OUTER = np.array([0.5, 1, 2], np.float32)


def make(*nodes: tuple[Any, ...], **attributes: Any) -> list[onnx.NodeProto]:
    """Nodes from op, inputs, outputs and, if there are any, their own attributes."""
    return [
        helper.make_node(op, inputs.split(), outputs.split(), **attributes, **dict(*own))
        for op, inputs, outputs, *own in nodes
    ]


def body(
    nodes: Sequence[onnx.NodeProto], carried: int, scanned: int, returned: int, size: int = SIZE
) -> Any:
    """A graph from h0.. and x0.. to k0.. and y0.., of vectors."""
    names = (("h", carried), ("x", scanned)), (("k", carried), ("y", returned))
    inputs, outputs = (
        [value(f"{name}{i}", [size]) for name, count in side for i in range(count)]
        for side in names
    )
    three = numpy_helper.from_array(np.array([size], np.int64), "three")
    return helper.make_graph(list(nodes), "body", inputs, outputs, [three])


def scan(
    graph: Any, steps: int, size: int = SIZE, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model with a Scan of this body, and inputs for it."""
    scanned = sum(info.name.startswith("x") for info in graph.input)
    carried = len(graph.input) - scanned
    returned = len(graph.output) - carried
    axes = attributes.get("scan_input_axes", [0] * scanned)
    shapes = {f"h{i}": (size,) for i in range(carried)}
    shapes |= {f"x{i}": (size, steps) if axis else (steps, size) for i, axis in enumerate(axes)}
    outputs = [*(f"t{i}" for i in range(carried)), *(f"ys{i}" for i in range(returned))]
    node = helper.make_node(
        "Scan",
        list(shapes),
        outputs,
        name="loop",
        body=graph,
        num_scan_inputs=scanned,
        **attributes,
    )
    shapes["dynamic"] = (size,)
    rng = np.random.default_rng(0)
    weights = {
        "weight": np.resize(OUTER, size),
        "matrix": rng.standard_normal((size, size), np.float32),
    }
    proto = model(
        [*make(("Abs", "dynamic", "outer")), node],
        [value(name, shape) for name, shape in shapes.items()],
        [value(name, [None] * (1 if name[0] == "t" else 2)) for name in outputs],
        weights=weights,
        opset=17,
    )
    return proto, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


OPS = ("Add", "Sub", "Mul", "Max", "Min", "MatMul")


def loop(random: Random, size: int = SIZE) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model, and inputs for it: vectors of this size."""
    carried, scanned = random.randint(0, 3), random.randint(1, 3)
    values = [*(f"h{i}" for i in range(carried)), *(f"x{i}" for i in range(scanned))]
    values += ["weight", "outer"]
    nodes: list[tuple[str, str, str]] = []
    for i in range(random.randint(1, 6)):
        op, first = random.choice(OPS), random.choice(values)
        second = "matrix" if op == "MatMul" else random.choice(values)
        nodes.append((op, f"{first} {second}", f"v{i}"))
        nodes.append(("Tanh", f"v{i}", f"w{i}"))
        values.append(f"w{i}")
    returned = random.randint(0 if carried else 1, 3)
    names = [*(f"k{i}" for i in range(carried)), *(f"y{i}" for i in range(returned))]
    nodes += [("Identity", random.choice(values), name) for name in names]
    attributes = {
        f"scan_{side}_{what}": [random.randint(0, 1) for _ in range(count)]
        for side, count in (("input", scanned), ("output", returned))
        for what in ("axes", "directions")
        if count
    }
    graph = body(make(*nodes), carried, scanned, returned, size)
    return scan(graph, random.randint(1, 6), size, **attributes)
