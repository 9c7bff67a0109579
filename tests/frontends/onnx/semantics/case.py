"""Nodes with edge values as operands, many of which make one model, and what each should give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tessella
from tests.fuzz.oracles import runtime_results

Array = npt.NDArray[Any]

OPSET = 26
"""The newest op set that ONNX Runtime knows."""

_UNITS = 16.0
"""The tolerance in units of the last place of 1."""
_LARGE = 10.0
"""Results cancel out where they are smaller than the largest result; the tolerance is relative to
that, up to this number."""


@dataclass(frozen=True)
class Case:
    """A node: its op, operands (None for an absent one) and attributes."""

    op: str
    operands: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fixed: Sequence[int] = ()
    """The operands that are initializers, such as shapes and axes."""
    outputs: int = 1
    wanted: Callable[..., Any] | None = None
    """The oracle: ``runtime`` for ONNX Runtime, or a function of the operands; None for
    ``onnx.reference``."""
    epsilon: float = 0.0
    """The precision of the oracle, where it is lower than that of the results."""
    signed: bool = False
    """True if the signs of zeros are defined."""

    def __str__(self) -> str:
        shapes = [None if x is None else f"{x.dtype}{list(x.shape)}" for x in self.operands]
        return f"{self.op} {dict(self.attributes)} {shapes}"


def runtime() -> None:
    """The oracle ONNX Runtime, as a value of ``Case.wanted``."""


class Batch:
    """A model of all cases: each node has operands and results of its own."""

    def __init__(self, cases: Sequence[Case], *, folded: bool = False) -> None:
        """With ``folded``, all operands are initializers."""
        self.feeds: dict[str, Array] = {}
        self._cases = cases
        self._folded = folded
        graph = onnx.GraphProto(name="edges")
        for number, case in enumerate(cases):
            self._add(graph, case, number)
        imports = [helper.make_opsetid("", OPSET)]
        self.proto = helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _add(self, graph: onnx.GraphProto, case: Case, number: int) -> None:
        names = [
            "" if x is None else self._operand(graph, f"x{number}_{i}", x, i in case.fixed)
            for i, x in enumerate(case.operands)
        ]
        results = [f"y{number}_{i}" for i in range(case.outputs)]
        graph.node.append(helper.make_node(case.op, names, results, **case.attributes))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in results)

    def _operand(self, graph: onnx.GraphProto, name: str, array: Array, fixed: bool) -> str:
        if self._folded or fixed:
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            code = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, code, list(array.shape)))
            self.feeds[name] = array
        return name

    def run(self, places: Sequence[str] | None = None) -> Sequence[Sequence[Array]]:
        """Return the results of each case, computed at some places."""
        model = tessella.compile(self.proto, places=places)
        remaining = iter(model.run(None, self.feeds))
        return [[next(remaining) for _ in range(case.outputs)] for case in self._cases]


def expected(case: Case) -> Sequence[Array]:
    """Return what a case should give."""
    batch = Batch([case])
    with np.errstate(all="ignore"):
        if case.wanted is None:
            found = ReferenceEvaluator(batch.proto).run(None, batch.feeds)
            return [np.asarray(y) for y in found]
        if case.wanted is runtime:
            known = runtime_results(batch.proto, batch.feeds)
            assert known is not None, f"ONNX Runtime refuses {case}"
            return known
        results = case.wanted(*case.operands)
        return results if isinstance(results, tuple) else (np.asarray(results),)


def difference(case: Case, found: Array, wanted: Array) -> str:
    """Return what is wrong with a result; an empty string if nothing is."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    wrong = _wrong(case, found, wanted)
    if not wrong.any():
        return ""
    at = tuple(int(n) for n in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size}, {list(at)}: {found[at]!r}, not {wanted[at]!r}"


def _wrong(case: Case, found: Array, wanted: Array) -> Array:
    if found.dtype.kind not in "fV" or "int" in found.dtype.name:
        return np.asarray(found != wanted)
    x, y = found.astype(np.float64), wanted.astype(np.float64)
    near = max(_UNITS * float(ml_dtypes.finfo(found.dtype).eps), case.epsilon)
    size = min(np.abs(y[np.isfinite(y)]).max(initial=0.0), _LARGE)
    wrong = ~np.isclose(x, y, rtol=near, atol=near * size, equal_nan=True)
    if not case.signed:
        return wrong
    return wrong | (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
