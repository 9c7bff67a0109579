"""Functions of ``tessella.ops`` inside a traced function: their calls are recorded in the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tessella.dialects.nn.core import NnOp, PyValue
from tessella.frontends.eager.operands import DType, Operand, fitting
from tessella.frontends.eager.settings import OpSettings
from tessella.frontends.emitter import Value
from tessella.frontends.trace import promote
from tessella.frontends.trace.size import TracedNumber
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.errors import ShapeError


def trace_of(values: Sequence[Any]) -> Trace | None:
    """Return the trace of the first traced operand; None if no operand is traced."""
    for value in values:
        if isinstance(value, (Traced, TracedNumber)):
            return cast(Trace, value.trace)
    return None


def record(
    trace: Trace,
    op: type[NnOp],
    values: Sequence[Any],
    settings: OpSettings,
    given: Mapping[str, PyValue],
) -> Traced | tuple[Traced, ...]:
    """Append an op to a trace, and return its results.

    Operands are promoted as in a call on arrays. Raises ShapeError if operands and settings do not
    fit together.
    """
    operands = [promote.as_operand(value) for value in values if value is not None]
    for operand in operands:
        if isinstance(operand, Traced | TracedNumber):
            trace.check(operand)
    rank = trace.lift(operands[0]).rank if operands else 0

    def emitted(dtypes: Sequence[DType]) -> Sequence[Value]:
        lifted = map(promote.cast, [trace] * len(operands), operands, dtypes)
        return trace.emitter.emit(op, *lifted, **settings.properties(given, rank))

    try:
        found = fitting([_sample(operand) for operand in operands], emitted)
    except ShapeError as error:
        raise trace.failed(error)  # noqa: B904 (it is the same error)
    results = tuple(Traced(trace, value) for value in found)
    return results[0] if len(results) == 1 else results


def _sample(operand: Any) -> Operand:
    """Return a stand-in for an operand that NumPy promotes in the same way: an array or a Python
    number."""
    kind: promote.Kind = promote.kind_of(operand)
    return kind(0) if isinstance(kind, type) else np.empty((), kind)
