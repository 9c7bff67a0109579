"""Models of one op of ONNX Runtime's domain, and their results in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

import tessella
from tests.frontends.onnx.models import model, value
from tests.models import run_onnxruntime

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Operands. The numbered ones are inputs, the others are initializers."""

    op: str
    operands: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: tuple[int, ...] = (0,)
    outputs: Sequence[str] = ("",)
    """The elements of the results: those of the first input where the text is empty; None for an
    output that is not used."""
    domain: str = "com.microsoft"
    opset: int = 21

    @property
    def title(self) -> str:
        """The op with its attributes, as the name of a test."""
        return "-".join([self.op, *(f"{k}={v}" for k, v in self.attributes.items())])


def made(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the model of a case, and its inputs."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.operands)]
    given = {n: x for n, x in zip(names, case.operands, strict=True) if x is not None}
    feeds = {f"x{i}": given[f"x{i}"] for i in case.inputs}
    results = {
        f"y{i}": element or given[f"x{case.inputs[0]}"].dtype.name
        for i, element in enumerate(case.outputs)
        if element != "unused"
    }
    outputs = [f"y{i}" if f"y{i}" in results else "" for i in range(len(case.outputs))]
    node = helper.make_node(
        case.op, names, outputs, domain=case.domain, name="node", **case.attributes
    )
    proto = model(
        [node],
        [value(name, x.shape, x.dtype) for name, x in feeds.items()],
        [value(name, None, np.dtype(element)) for name, element in results.items()],
        weights={name: x for name, x in given.items() if name not in feeds},
        domains={case.domain: 1} if case.domain else {},
        opset=case.opset,
    )
    return proto, feeds


def results(case: Case) -> tuple[list[Array], list[Array]]:
    """Return the results of a case, and ONNX Runtime's."""
    proto, feeds = made(case)
    return tessella.compile(proto).run(None, feeds), run_onnxruntime(proto, feeds)


def close(found: Array, expected: Array, tolerance: float = 2e-5) -> None:
    """Check type, shape, and elements up to rounding."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    wide, other = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(wide, other, rtol=tolerance, atol=tolerance)


def check(case: Case, tolerance: float = 2e-5) -> None:
    """Check that all results of a case are those of ONNX Runtime, up to rounding."""
    for found, expected in zip(*results(case), strict=True):
        close(found, expected, tolerance)
