"""Tracing: from a function and the specs of its arguments to a program of the `nn` stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.nn.core import element_type, tensor
from tessella.frontends.programs import FixedProgram
from tessella.frontends.trace.arguments import Call, Parameters, Spec
from tessella.frontends.trace.location import located
from tessella.frontends.trace.traced import Trace, Traced
from tessella.frontends.trace.tree import Tree, flatten
from tessella.support.errors import InputError, ShapeError


@dataclass(frozen=True)
class TracedProgram(FixedProgram):
    """What a function does with arrays of certain shapes, and the structure of its result."""

    result: Tree


def trace(
    function: Callable[..., Any], parameters: Parameters, call: Call, specs: Sequence[Spec]
) -> TracedProgram:
    """Run a function on traced arrays, and record what it does. Raises TessellaError."""
    names = call.names()
    types = [_tensor(name, spec) for name, spec in zip(names, specs, strict=True)]
    main = make_main(names, types)
    record = Trace(main.body.block, captured_names(function))
    columns = zip(main.body.block.args, specs, strict=True)
    arrays = [Traced(record, argument, spec.weak) for argument, spec in columns]
    args, kwargs = parameters.arguments(call, arrays)
    leaves: list[Any] = []
    with located(), record.opened():
        result = flatten(function(*args, **kwargs), leaves)
        paths = list(result.paths("result"))
        values = [_lifted(record, x, path) for x, path in zip(leaves, paths, strict=True)]
    finish_main(main, paths, [x.value for x in values])
    module = record.emitter.module(main)
    return TracedProgram(Graph(module, record.emitter.weights), result)


def _tensor(name: str, spec: Spec):
    try:
        return tensor(element_type(spec.dtype), spec.shape)
    except ShapeError as error:
        raise InputError(
            f"the argument {name!r} has a dtype that is not supported",
            expected=error.expected,
            found=spec.dtype.name,
            hint="convert it with x.astype(...)",
        ) from None


def _lifted(record: Trace, leaf: Any, path: str) -> Traced:
    if isinstance(leaf, Traced | np.ndarray | np.generic | bool | int | float):
        return record.lift(leaf)
    raise InputError(
        f"a traced function returns a {type(leaf).__name__}",
        where=path,
        expected="arrays, numbers, and tuples, lists and dictionaries of them",
        found=repr(leaf),
    )


def captured_names(function: Callable[..., Any]) -> dict[int, str]:
    """The names of the arrays that a function takes from around it, by identity."""
    if not isinstance(function, FunctionType):
        return {}
    code = function.__code__
    scope = {name: function.__globals__.get(name) for name in code.co_names}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # the variable is not assigned yet
            continue
    return {id(value): name for name, value in scope.items() if isinstance(value, np.ndarray)}
