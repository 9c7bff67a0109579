"""An interpreter of programs: it runs each `nn` op by its NumPy kernel, and each `tile` statement
point by point of its index space.

It is the oracle of the tests and of `tessella bisect`. It runs the stages `nn`, `placed` and
`tile`, and the IR between them. It respects the element types of values, and ignores layouts and
schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects import nn, tile
from tessella.dialects.bound import bind, bound, bound_by
from tessella.dialects.graph import Graph, main_function, signature
from tessella.dialects.nn.constants import SplatOp, WeightOp, splat_array, weight_array
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of
from tessella.dialects.nn.traits import definitions
from tessella.dialects.place import CastOp, CopyOp, RelayoutOp
from tessella.dialects.rt import LaunchOp
from tessella.dialects.sizes import symbols_in
from tessella.dialects.symbols import callee_of
from tessella.dialects.tile.evaluate import contract
from tessella.dialects.tile.evaluate_selections import joined, selected, suppressed
from tessella.runtime.elements import as_own, dtype_name
from tessella.runtime.host import run
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InputError, InternalError
from tessella.support.sizes import value_of, with_symbols

Values = Mapping[SSAValue, Array]
OpRunner = Callable[["Interpreter", Operation, Values], list[Array]]


def interpret(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs of ``@main`` for inputs by name. Raises InputError if names, shapes or
    element types differ from those of ``@main``."""
    arrays = in_order(graph, inputs)
    module = bound(graph.module, _sizes(graph.module, arrays))
    return Interpreter(graph.weights).block(main_function(module).body.block, arrays)


def in_order(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the inputs in the order of @main's arguments. Raises InputError if names, shapes or
    element types differ from those of @main."""
    infos, _ = signature(graph.module)
    names = [info.name for info in infos]
    if set(names) != set(inputs):
        raise InputError("wrong inputs", expected=str(names), found=str(list(inputs)))
    arrays = [as_own(inputs[name]) for name in names]
    sizes = _sizes(graph.module, arrays)
    declared = map(shape_of, main_function(graph.module).args)
    for info, array, dims in zip(infos, arrays, declared, strict=True):
        found = dtype_name(array.dtype)
        shape = tuple(value_of(size, sizes) for size in dims)
        if (found, array.shape) != (info.dtype, shape):
            raise InputError(
                f"wrong array for the input {info.name!r}",
                expected=f"{info.dtype} {shape}",
                found=f"{found} {array.shape}",
            )
    return arrays


def _sizes(module: ModuleOp, arrays: Sequence[Array]) -> dict[str, int]:
    """Return the values of the module's symbols by name, which the shapes of the input arrays
    determine."""
    declared = map(shape_of, main_function(module).args)
    shapes = [(dims, array.shape) for dims, array in zip(declared, arrays, strict=True)]
    return bound_by(symbols_in(module), shapes)


class Interpreter:
    """An interpreter that runs the ops of a program one by one, in NumPy."""

    def __init__(self, weights: WeightStore) -> None:
        self.weights = weights

    def block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """Run the ops of a block, and return the values of its terminator's operands. Each array is
        freed after its last use."""
        return self._ops([*block.ops], dict(zip(block.args, arguments, strict=True)))

    def _ops(self, ops: Sequence[Operation], values: dict[SSAValue, Array]) -> list[Array]:
        """Run ops of a block up to its terminator. After an op that defines symbolic sizes, the
        symbols are replaced by their values in the ops that follow."""
        *body, terminator = ops
        reads = {op: {v for inner in op.walk() for v in inner.operands} for op in body}
        last_use = {value: op for op in body for value in reads[op]}
        last_use |= dict.fromkeys(terminator.operands, terminator)
        for i, op in enumerate(body, 1):
            results = self.op(op, values)
            values.update(zip(op.results, results, strict=True))
            for value in (*reads[op], *op.results):
                if last_use.get(value, op) is op:
                    values.pop(value, None)
            if sizes := _defined(op, results):
                return self._ops(ops[i:], _bind(op, sizes, values))
        return [values[value] for value in terminator.operands]

    def op(self, op: Operation, values: Values) -> list[Array]:
        """Run an op on the arrays in ``values``, and return its results. Raises InternalError if
        their dtypes or shapes differ from the result types."""
        results = _runner(op)(self, op, values)
        sizes = _defined(op, results)
        for result, array in zip(op.results, results, strict=True):
            shape = tuple(with_symbols(size, sizes) for size in shape_of(result))
            expected = dtype_of(result.type), shape
            if expected != (array.dtype, array.shape):
                raise InternalError(
                    f"{op.name}: the NumPy kernel and the type of the result differ",
                    expected=f"{expected}",
                    found=f"{array.dtype}, {array.shape}",
                )
        return results


def _defined(op: Operation, results: Sequence[Array]) -> Mapping[str, int]:
    """Return the values of the symbols that an op defines, by name."""
    return {d.symbol.name: results[d.result].shape[d.axis] for d in definitions(op)}


def _bind(
    op: Operation, sizes: Mapping[str, int], values: Mapping[SSAValue, Array]
) -> dict[SSAValue, Array]:
    """Replace symbols by numbers in the module that contains an op. The types of values change with
    the symbols, so values are replaced by new ones: return the arrays by the new values of the op's
    block."""
    module, block = op.get_toplevel_object(), op.parent
    if not isinstance(module, ModuleOp) or block is None:
        raise InternalError(f"{op.name} defines symbols of no module")
    old = _values_in(block)
    bind(module, sizes)
    pairs = zip(old, _values_in(block), strict=True)
    return {new: values[value] for value, new in pairs if value in values}


def _values_in(block: Block) -> Sequence[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]


def _runner(op: Operation) -> OpRunner:
    if type(op) in _RUNNERS:
        return _RUNNERS[type(op)]
    if isinstance(op, NnOp):
        return _run_nn
    if op.regions:
        return _run_region
    raise InternalError(f"no interpretation of {op.name}")


def _operands(op: Operation, values: Values) -> list[Array]:
    return [values[value] for value in op.operands]


def _run_nn(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return cast(NnOp, op).evaluate(*_operands(op, values))


def _run_region(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    """Run a group of ops: the arguments of its block are the op's operands, the operands of its
    terminator are the op's results."""
    return self.block(op.regions[0].block, _operands(op, values))


def _run_weight(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return [weight_array(cast(WeightOp, op), self.weights)]


def _run_splat(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return [np.array(splat_array(cast(SplatOp, op)))]


def _run_move(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return _operands(op, values)


def _run_cast(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    """Run a `place.cast`: convert the elements as `nn.cast` does."""
    dtype = dtype_of(op.results[0].type)
    return run("nn.cast", _operands(op, values), {"to": dtype}, [dtype])


def _run_call(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    """Run a call: run the body of the kernel or segment that it names."""
    symbol = cast(SymbolRefAttr, op.properties["callee"])
    callee = callee_of(op, symbol, tile.KernelOp, tile.SegmentOp)
    return self.block(callee.body.block, _operands(op, values))


def _run_scan(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    """Run a loop op: run the function or segment that it names in each iteration."""
    scan = cast(nn.ScanOp | tile.ScanOp, op)
    symbol = scan.body if isinstance(scan, nn.ScanOp) else scan.callee
    body = callee_of(op, symbol, FuncOp, tile.SegmentOp).body.block
    sequences = [result.type for result in op.results[scan.loop.carried :]]
    rows = [np.zeros(shape_of(type), dtype_of(type)) for type in sequences]
    return scan.loop.run(lambda arrays: self.block(body, arrays), _operands(op, values), rows)


def _run_view(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return [x.reshape(shape_of(op.results[0])) for x in _operands(op, values)]


def _run_empty(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    """Run a `tile.empty`: return an array of zeros. The elements are arbitrary, as later statements
    write them before any is read."""
    return [np.zeros(shape_of(op.results[0]), dtype_of(op.results[0].type))]


def _run_contract(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return [contract(cast(tile.ContractOp, op), values)]


def _run_sort(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return selected(cast(tile.SortOp, op), values)


def _run_suppress(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    return suppressed(cast(tile.SuppressOp, op), values)


def _run_join(self: Interpreter, op: Operation, values: Values) -> list[Array]:
    places, counts = _operands(op, values)
    return joined(places, counts)


_RUNNERS: dict[type[Operation], OpRunner] = {
    WeightOp: _run_weight,
    SplatOp: _run_splat,
    CopyOp: _run_move,
    RelayoutOp: _run_move,
    CastOp: _run_cast,
    LaunchOp: _run_call,
    tile.CallOp: _run_call,
    nn.ScanOp: _run_scan,
    tile.ScanOp: _run_scan,
    tile.ViewOp: _run_view,
    tile.EmptyOp: _run_empty,
    tile.ContractOp: _run_contract,
    tile.SortOp: _run_sort,
    tile.SuppressOp: _run_suppress,
    tile.JoinOp: _run_join,
}
