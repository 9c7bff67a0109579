"""The meaning of a program: its ops run one by one by their NumPy kernels.

The oracle of the tests. It reads the `nn` and `placed` stages: of places it heeds the precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects.graph import Graph, main_function, signature
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of
from tessella.dialects.nn.evaluate import splat_array, weight_array
from tessella.dialects.place import CastOp, CopyOp, RelayoutOp
from tessella.runtime.elements import dtype_name, tagged
from tessella.runtime.host import run
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InputError, InternalError

OpRunner = Callable[[Operation, Sequence[Array], WeightStore], list[Array]]


def interpret(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of ``@main`` for inputs by name.

    Raises InputError where names, shapes or element types are not those of ``@main``.
    """
    arrays = _in_order(graph, inputs)
    return _run_block(main_function(graph.module).body.block, arrays, graph.weights)


def _in_order(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """The inputs in the order of @main's arguments, checked."""
    infos, _ = signature(graph.module)
    names = [info.name for info in infos]
    if set(names) != set(inputs):
        raise InputError("wrong inputs", expected=str(names), found=str(list(inputs)))
    for info in infos:
        array = tagged(inputs[info.name])
        found = dtype_name(array.dtype)
        if (found, array.shape) != (info.dtype, info.shape):
            raise InputError(
                f"wrong array for the input {info.name!r}",
                expected=f"{info.dtype} {info.shape}",
                found=f"{found} {array.shape}",
            )
    return [tagged(inputs[name]) for name in names]


def _run_block(block: Block, arguments: Sequence[Array], weights: WeightStore) -> list[Array]:
    """The operands of the block's terminator; a value's array dies after its last use."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    *body, terminator = block.ops
    last_use = {value: op for op in (*body, terminator) for value in op.operands}
    for op in body:
        results = _run_op(op, [values[value] for value in op.operands], weights)
        values.update(zip(op.results, results, strict=True))
        for value in {*op.operands, *op.results}:
            if last_use.get(value, op) is op:
                del values[value]
    return [values[value] for value in terminator.operands]


def _run_op(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    results = _runner(op)(op, arrays, weights)
    for result, array in zip(op.results, results, strict=True):
        expected = dtype_of(result.type), shape_of(result)
        if expected != (array.dtype, array.shape):
            raise InternalError(
                f"{op.name}: the NumPy kernel and the type of the result differ",
                expected=f"{expected}",
                found=f"{array.dtype}, {array.shape}",
            )
    return results


def _runner(op: Operation) -> OpRunner:
    if type(op) in _RUNNERS:
        return _RUNNERS[type(op)]
    if isinstance(op, NnOp):
        return _run_nn
    if op.regions:
        return _run_region
    raise InternalError(f"no interpretation of {op.name}")


def _run_nn(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    return cast(NnOp, op).evaluate(*arrays)


def _run_region(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    """A group: its block's arguments are the operands, its terminator's operands the results."""
    return _run_block(op.regions[0].block, arrays, weights)


def _run_weight(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    return [weight_array(cast(WeightOp, op), weights)]


def _run_splat(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    return [np.array(splat_array(cast(SplatOp, op)))]


def _run_move(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    return list(arrays)


def _run_cast(op: Operation, arrays: Sequence[Array], weights: WeightStore) -> list[Array]:
    """The elements of the result, as `nn.cast` converts them."""
    dtype = dtype_of(op.results[0].type)
    return run("nn.cast", arrays, {"to": dtype}, [dtype])


_RUNNERS: dict[type[Operation], OpRunner] = {
    WeightOp: _run_weight,
    SplatOp: _run_splat,
    CopyOp: _run_move,
    RelayoutOp: _run_move,
    CastOp: _run_cast,
}
