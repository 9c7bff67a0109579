"""Tracing of a function, for specs of its arguments, to a program of the `nn` stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.nn.core import Tensor, dtype_of, element_type, tensor
from tessella.dialects.sizes import declare_symbols
from tessella.frontends.emitter import Value
from tessella.frontends.programs import FunctionSource
from tessella.frontends.trace.arguments import CallArguments, Parameters, Spec
from tessella.frontends.trace.effects import check_unchanged
from tessella.frontends.trace.location import located
from tessella.frontends.trace.numbers import NumberStep
from tessella.frontends.trace.outside import without_effects
from tessella.frontends.trace.size import TracedNumber
from tessella.frontends.trace.traced import Trace, Traced
from tessella.frontends.trace.tree import Tree, flatten
from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.support.errors import InputError, ShapeError
from tessella.support.sizes import Size, symbols_of

Shapes = Sequence[tuple[Size, ...]]


def trace(
    function: Callable[..., Any], parameters: Parameters, call: CallArguments, shapes: Shapes
) -> Graph:
    """Run a function on traced arrays of these shapes, and return the program of the recorded ops.
    Raises TessellaError."""
    static = list(call.static.values())
    return without_effects(function, static, lambda: _trace(function, parameters, call, shapes))


def _trace(
    function: Callable[..., Any], parameters: Parameters, call: CallArguments, shapes: Shapes
) -> Graph:
    specs, names = call.specs(), call.names()
    columns = zip(names, specs, shapes, strict=True)
    main = make_main(names, [_tensor(*column) for column in columns])
    symbols = sorted(symbols_of(size for shape in shapes for size in shape))
    record = Trace(main.body.block, captured_names(function), shapes)
    arguments = zip(record.emitter.values(main.body.block.args), specs, strict=True)
    arrays = [Traced(record, argument, spec.weak) for argument, spec in arguments]
    args, kwargs = parameters.arguments(call, arrays)
    leaves: list[Any] = []
    with located(), record.opened():
        result = flatten(function(*args, **kwargs), leaves)
        paths = list(result.paths("result"))
        values = [_lifted(record, x, path) for x, path in zip(leaves, paths, strict=True)]
    if record.failure is not None:
        raise record.failure
    finish_main(main, paths, [x.ssa for x in values])
    module = record.emitter.module(main)
    declare_symbols(module, symbols)
    return Graph(
        module, record.emitter.weights, structure=CallInterface(result, record.numbers.steps)
    )


@dataclass(frozen=True)
class CallInterface:
    """The relation of a program to its function: the structure of the results, and checks of the
    arguments."""

    results: Tree
    numbers: Sequence[NumberStep]
    """The integers that depend on arguments, which each call checks."""


def source(
    graph: Callable[[Shapes], Graph], call: CallArguments, shapes: Sequence[Dimensions]
) -> FunctionSource:
    """Return a source of programs for the argument types of a call. Its outputs are known only
    after a trace, from the structure of a graph."""
    columns = zip(call.names(), call.specs(), shapes, strict=True)
    return FunctionSource(
        graph,
        [
            ValueInfo(name, dtype_name(dtype_of(_tensor(name, spec, ()))), shape)
            for name, spec, shape in columns
        ],
    )


def _tensor(name: str, spec: Spec, shape: tuple[Size, ...]) -> Tensor:
    try:
        return tensor(element_type(spec.dtype), shape)
    except ShapeError as error:
        raise InputError(
            f"the argument {name!r} has a dtype that is not supported",
            expected=error.expected,
            found=spec.dtype.name,
            hint="convert it with x.astype(...)",
        ) from None


def _lifted(record: Trace, leaf: Any, path: str) -> Value:
    if isinstance(
        leaf, Traced | TracedNumber | np.ndarray | np.generic | bool | complex | int | float
    ):
        if isinstance(leaf, Traced):
            check_unchanged(leaf, f"as {path}")
        return record.lift(leaf)
    raise InputError(
        f"a traced function returns a {type(leaf).__name__}",
        where=path,
        expected="arrays, numbers, and tuples, lists and dictionaries of them",
        found=repr(leaf),
    )


def captured_names(function: Callable[..., Any]) -> dict[int, str]:
    """Return the names of the arrays that a function captures, by the identities of the arrays."""
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
