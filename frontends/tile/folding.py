"""Constant folding of functions of known numbers: NumPy runs the scalar code of elements in 64
bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from tessella.dialects.nn.core import Array, element_type
from tessella.dialects.tile.scalars import evaluate
from tessella.frontends.tile.functions import Number, ScalarFunction
from tessella.kernels.builder import Scalars

_DTYPES = {"b": np.dtype(bool), "i": np.dtype(np.int64), "f": np.dtype(np.float64)}
_WRAPPED = float(1 << 62)
"""The difference between an integer result and the float result above which the integer has
wrapped."""


def folded(function: ScalarFunction, numbers: Sequence[Number], kind: str) -> Number:
    """Return the result of a function of numbers, which are booleans, integers or floats by
    ``kind``.

    Raises ValueError if the result is undefined, not finite, or does not fit into 64 bits.
    """
    if function.check is not None:
        function.check(*numbers)
    result = _computed(function, numbers, _DTYPES[kind])
    if isinstance(result, bool):
        return result
    if not np.isfinite(result):
        raise ValueError("the result is not a finite number")
    if isinstance(result, int) and "f" in function.kinds:
        wide = _computed(function, numbers, _DTYPES["f"])
        if abs(wide - result) > _WRAPPED:
            raise ValueError("the result is too large")
    return result


def _computed(function: ScalarFunction, numbers: Sequence[Number], dtype: np.dtype[Any]) -> Number:
    dtypes = [np.dtype(bool)] * function.conditions
    dtypes += [dtype] * (function.arity - function.conditions)
    arrays = [np.array([x]).astype(to) for x, to in zip(numbers, dtypes, strict=True)]
    block = Block(arg_types=[element_type(to) for to in dtypes])
    values: dict[SSAValue, Array] = dict(zip(block.args, arrays, strict=True))
    result = function.body(Scalars(block), block.args)
    with np.errstate(all="ignore"):
        for op in block.ops:
            values[op.results[0]] = evaluate(op, [values[x] for x in op.operands])
    return values[result].item()
