"""Functions of ``tessella.ops`` inside a traced function: their calls are recorded in the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tessella.dialects.nn.core import NnOp, PyValue
from tessella.frontends.eager.operands import Operand, readings
from tessella.frontends.eager.settings import OpSettings
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
    failed: ShapeError | None = None
    for dtypes in readings([_sample(operand) for operand in operands]):
        try:
            lifted = map(promote.cast, [trace] * len(operands), operands, dtypes)
            found = trace.emitter.emit(op, *lifted, **settings.properties(given, rank))
        except ShapeError as error:
            failed = failed or error
        else:
            results = tuple(Traced(trace, value) for value in found)
            return results[0] if len(results) == 1 else results
    assert failed is not None
    raise trace.failed(failed)


def _sample(operand: Any) -> Operand:
    """Return a stand-in for an operand that NumPy promotes in the same way: an array or a Python
    number."""
    kind: promote.Kind = promote.kind_of(operand)
    return kind(0) if isinstance(kind, type) else np.empty((), kind)
