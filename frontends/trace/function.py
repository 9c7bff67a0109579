"""``@function``, a decorator of operations on arrays that work inside and outside of a trace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, cast

from xdsl.ir import Block, SSAValue

from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.evaluate import constant_value
from tessella.frontends.emitter import Value
from tessella.frontends.trace.location import located
from tessella.frontends.trace.size import TracedNumber
from tessella.frontends.trace.traced import Array, Trace, Traced
from tessella.support.errors import InternalError

P = ParamSpec("P")

Result = Traced | Value | Array


def function(body: Callable[Concatenate[Trace, P], Result]) -> Callable[P, Array]:
    """Turn a function whose first parameter is a trace into a function of arrays.

    If an argument is a traced array, the ops are recorded in its trace. If all arguments are plain
    arrays, NumPy computes the result.
    """

    @functools.wraps(body)
    def call(*args: P.args, **kwargs: P.kwargs) -> Array:
        found = next(_traced((args, kwargs)), None)
        if found is None:
            return _run(lambda trace: body(trace, *args, **kwargs))
        trace = cast(Trace, found.trace)
        trace.check(found)
        try:
            result = body(trace, *args, **kwargs)
            # in a trace, the result is a traced array, despite its static type
            return cast(Array, Traced(trace, result) if isinstance(result, Value) else result)
        except Exception as error:
            raise trace.failed(error)  # noqa: B904 (it is the same error)

    signature = inspect.signature(body)
    parameters = list(signature.parameters.values())[1:]
    call.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return call


def _traced(value: Any) -> Iterator[Traced | TracedNumber]:
    if isinstance(value, Traced | TracedNumber):
        yield value
    elif isinstance(value, tuple | list):
        for item in cast("list[Any]", value):
            yield from _traced(item)
    elif isinstance(value, Mapping):
        yield from _traced(list(cast("Mapping[Any, Any]", value).values()))


def _run(body: Callable[[Trace], Result]) -> Array:
    with located():
        trace = Trace(Block())
        result = body(trace)
        is_made = isinstance(result, Traced | Value)
        return _evaluate(trace, trace.lift(result)) if is_made else result


def _evaluate(trace: Trace, result: Value) -> Array:
    """Return the elements of a value that depends only on captured arrays, computed by NumPy
    kernels."""
    values: dict[SSAValue, Array] = {}
    for op in trace.emitter.block.ops:
        if isinstance(op, ConstantOp):
            array = constant_value(op.res, trace.emitter.weights, limit=1 << 62)
            if array is None:
                raise InternalError(f"the value of {op.name} is not known")
            values[op.res] = array
        elif isinstance(op, NnOp):
            arrays = op.evaluate(*(values[x] for x in op.operands))
            values.update(zip(op.results, arrays, strict=True))
    array = values[result.ssa]
    return array if array.flags.writeable and array.base is None else array.copy()
