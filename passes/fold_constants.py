"""Evaluate ops that depend only on constants.

    %w = nn.weight @w : tensor<8x3xf32>
    %s = nn.splat 2.0 : f32 : tensor<8x1xf32>
    %1 = nn.splat 0.5 : f32 : tensor<8x1xf32>
    %2 = nn.mul %s, %1
    %3 = nn.sub %w, %2 {node = "a"}
    ->
    %3 = nn.weight @a : tensor<8x3xf32>

A tensor without elements is a constant: it becomes a splat of no elements, also if it is an
argument. A result whose elements are known to be equal becomes a splat, which takes no memory; and
a small weight of equal elements becomes one too. Other results are added to the weight store, and
unused weights are removed from it. An op stays if the store does not hold a weight that it reads,
or if its evaluation fails.

An op that moves elements of `nn.sizes` is evaluated if its result contains only concrete sizes.

Memory is bounded: a result is no larger than the limit or the largest weight that it is computed
from. Large elementwise results are computed in parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from weakref import WeakSet

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, TensorType
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from tessella.dialects.elements import bytes_of, element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp, splat_array, weight_array
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of, tensor_type
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.nn.evaluate import DEFAULT_LIMIT, Constants, evaluation_bytes
from tessella.dialects.nn.evaluate_sizes import evaluate_sizes, holds_sizes, sizes_array
from tessella.dialects.nn.known import bits_of, common_number
from tessella.dialects.nn.movement import PadOp
from tessella.dialects.nn.symbolic import SizesOp, SymbolicOp
from tessella.dialects.nn.traits import MovesElements, SumsProducts
from tessella.dialects.place import place_of
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.runtime import host
from tessella.runtime.elements import full, widened
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known, known_all
from tessella.support.errors import ExecutionError

Number = float | int

_TEMPORARY = "fold-constants."
_PART = 4 << 20  # bytes of a large elementwise result computed at a time


@dataclass(frozen=True)
class FoldConstantsPass(ProgramPass):
    """Replace ops on constants with weights and splats."""

    name = "fold-constants"
    stages = ("nn", "placed")

    limit: int = DEFAULT_LIMIT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        folder = _Folder(op, weights_of(ctx), self.limit)
        for function in functions(op):
            for argument in function.body.block.args:
                folder.visit_argument(argument)
            for inner in list(function.body.block.ops):
                if isinstance(inner, NnOp):
                    folder.visit(inner)
        folder.finish()


@dataclass(frozen=True)
class _Made:
    """The array of a weight that the pass will add to the store, and the weight's name."""

    hint: str
    array: Array


class _Folder:
    def __init__(self, module: ModuleOp, weights: WeightStore, limit: int) -> None:
        self.weights = weights
        self.limit = limit
        self.uses = Counter(_symbol(op) for op in module.walk() if isinstance(op, WeightOp))
        self.garbage = 0
        # intermediate results never reach the store
        self.made: dict[WeightOp, _Made] = {}
        self.numbers = count()

    def visit_argument(self, argument: BlockArgument) -> None:
        """Replace the uses of an argument without elements."""
        if argument.first_use is not None and _is_empty(argument):
            splat = SplatOp(0, tensor_type(argument))
            Rewriter.insert_op(splat, InsertPoint.at_start(argument.owner))
            argument.replace_all_uses_with(splat.res)

    def visit(self, op: NnOp) -> None:
        """Replace an op whose operands are constants, or whose results have no elements."""
        if isinstance(op, WeightOp):
            self._splat_of_weight(op)
        elif isinstance(op, ConstantOp) or op.kernel is not None:
            return
        elif _cannot_fail(op) and all(map(_is_empty, op.results)):
            self._replace(op, [SplatOp(0, tensor_type(result)) for result in op.results])
        elif (known := _known_sizes(op)) is not None:
            self._replace(op, [self._constant(op, 0, known)])
        elif not self._is_foldable(op):
            return
        elif (number := _splat_number(op)) is not None:
            self._replace(op, [SplatOp(number, tensor_type(op.results[0]))])
        elif not op.symbols and (arrays := self._arrays(op)) is not None:
            self._replace(op, [self._constant(op, i, array) for i, array in enumerate(arrays)])

    def finish(self) -> None:
        """Remove the unused weights from the store, and add the new ones."""
        self._drop_garbage()
        for op, made in self.made.items():
            op.symbol = SymbolRefAttr(self.weights.add(made.hint, made.array))

    def _drop_garbage(self) -> None:
        self.weights.keep({symbol for symbol, uses in self.uses.items() if uses})
        self.garbage = 0

    def _is_foldable(self, op: NnOp) -> bool:
        return (
            not op.is_fixed
            and op.has_trait(Pure)
            and (len(op.operands) > 0 or isinstance(op, SymbolicOp))
            and all(self._is_known(value) for value in op.operands)
        )

    def _is_known(self, value: SSAValue) -> bool:
        owner = value.owner
        if not isinstance(owner, WeightOp):
            return isinstance(owner, SplatOp)
        stored = _symbol(owner) in self.weights and place_of(value.type) is None
        return stored or owner in self.made

    def _splat_of_weight(self, op: WeightOp) -> None:
        if _symbol(op) in self.weights and place_of(op.res.type) is None:
            number = common_number(weight_array(op, self.weights))
            if number is not None:
                self._replace(op, [SplatOp(number, tensor_type(op.res))])

    def _arrays(self, op: NnOp) -> Sequence[Array] | None:
        """Return the arrays of an op's results; None if they take too much memory or the op
        fails."""
        if not may_fold(op, self.limit):
            return None
        if not _is_bounded(op):
            constants = Constants(self._operand_store(op), self.limit)
            arrays = [constants.value(result) for result in op.results]
            return [a for a in arrays if a is not None] if arrays[0] is not None else None
        operands = [self._array(value) for value in op.operands]
        try:
            if isinstance(op, ElementwiseOp):
                return [_in_parts(op, operands)]
            return op.evaluate(*operands)
        except (ExecutionError, MemoryError):
            # The op stays, and raises the error at run time.
            return None

    def _operand_store(self, op: NnOp) -> WeightStore:
        store = WeightStore()
        for value in dict.fromkeys(op.operands):
            if isinstance(value.owner, WeightOp) and _symbol(value.owner) not in store:
                store.add(_symbol(value.owner), self._array(value))
        return store

    def _array(self, value: SSAValue) -> Array:
        owner = value.owner
        if isinstance(owner, SplatOp):
            return splat_array(owner)
        assert isinstance(owner, WeightOp)
        made = self.made.get(owner)
        return weight_array(owner, self.weights) if made is None else made.array

    def _constant(self, op: NnOp, result: int, array: Array) -> ConstantOp:
        type = tensor_type(op.results[result])
        number = common_number(array)
        if number is not None:
            return SplatOp(number, type)
        weight = WeightOp(f"{_TEMPORARY}{next(self.numbers)}", type)
        self.made[weight] = _Made(_hint(op, result), array)
        return weight

    def _replace(self, op: NnOp, constants: Sequence[ConstantOp]) -> None:
        operands = dict.fromkeys(op.operands)
        for old, new in zip(op.results, constants, strict=True):
            Rewriter.insert_op(new, InsertPoint.before(op))
            new.res.name_hint = old.name_hint
            old.replace_all_uses_with(new.res)
        self._erase(op)
        for value in operands:
            if isinstance(value.owner, ConstantOp) and value.first_use is None:
                self._erase(value.owner)

    def _erase(self, op: NnOp) -> None:
        Rewriter.erase_op(op)
        if not isinstance(op, WeightOp) or self.made.pop(op, None) is not None:
            return
        symbol = _symbol(op)
        self.uses[symbol] -= 1
        if not self.uses[symbol] and symbol in self.weights:
            self.garbage += self.weights[symbol].nbytes
            # Dropping takes time in proportion to all weights, so it waits until there is much
            # garbage.
            if self.garbage > self.limit:
                self._drop_garbage()


def _is_empty(value: SSAValue) -> bool:
    """Return whether a tensor of real numbers has no elements, whatever the values of symbols."""
    if not isinstance(value.type, TensorType) or place_of(value.type) is not None:
        return False
    return element_of(value.type).is_real and 0 in shape_of(value)


def _cannot_fail(op: NnOp) -> bool:
    """Return whether an op with an empty result also has no index that could be out of range."""
    if isinstance(op, ElementwiseOp) or op.has_trait(SumsProducts):
        return op.has_trait(Pure)
    moves = op.get_trait(MovesElements)
    return moves is not None and all(0 in shape_of(op.operands[i]) for i in moves.indices)


def may_fold(op: NnOp, limit: int = DEFAULT_LIMIT) -> bool:
    """Return whether an op on constants may be evaluated within a limit on memory."""
    if isinstance(op, ConstantOp):
        return True
    if not op.has_trait(Pure) or op.symbols:
        return False
    if not _is_bounded(op):
        return known(evaluation_bytes(op)) <= limit
    read = (v for v in op.operands if not isinstance(v.owner, SplatOp))
    return _bytes(op.results[0]) <= max(limit, *map(_bytes, read), 0)


_VARIABLE = WeakSet[NnOp]()
"""Ops that were found not to be constant, so that no later question walks through them again."""


def will_be_constant(value: SSAValue) -> bool:
    """Return whether a value is a constant, or an op on constants that this pass evaluates, such as
    the weights that a fusion computes."""
    seen = set[NnOp]()
    path: list[NnOp] = []
    left = [iter((value,))]
    while left:
        x = next(left[-1], None)
        if x is None:
            left.pop()
            del path[-1:]
        elif not isinstance(x.owner, ConstantOp) and x.owner not in seen:
            op = x.owner
            if not isinstance(op, NnOp) or op in _VARIABLE or not op.operands or not may_fold(op):
                _VARIABLE.update(path)
                return False
            seen.add(op)
            path.append(op)
            left.append(iter(op.operands))
    return True


def _is_bounded(op: NnOp) -> bool:
    """Return whether the evaluation of an op needs little memory besides its operands and
    result."""
    return isinstance(op, ElementwiseOp) or op.has_trait(MovesElements)


def _symbol(op: WeightOp) -> str:
    return op.symbol.root_reference.data


def _hint(op: NnOp, result: int) -> str:
    """Return the name of the weight that replaces a result."""
    name = op.node if "node" in op.attributes else op.results[result].name_hint
    return name or op.name.removeprefix("nn.")


def _bytes(value: SSAValue) -> int:
    return known(bytes_of(tensor_type(value)))


def _known_sizes(op: NnOp) -> Array | None:
    """Return the result of an op that moves elements of `nn.sizes`, as an array; None if a size in
    the result is symbolic."""
    sizes = op.operands[0].owner if len(op.operands) == 1 else None
    if not isinstance(sizes, SizesOp) or not op.has_trait(MovesElements):
        return None
    [array] = evaluate_sizes(op, [sizes_array(sizes)])
    return None if holds_sizes(array) else array


def _splat_number(op: NnOp) -> Number | None:
    """Return the number that all elements of an op's result equal, if this follows from operands
    that are splats; None if it does not."""
    if not op.operands or not all(isinstance(value.owner, SplatOp) for value in op.operands):
        return None
    if not element_of(op.results[0].type).is_real:
        return None
    units = [_unit(value.owner) for value in op.operands if isinstance(value.owner, SplatOp)]
    if isinstance(op, ElementwiseOp):
        return widened(op.evaluate(*units)[0]).item()
    if isinstance(op, PadOp):
        # One element of the padding and one of the operand represent all.
        return common_number(host.run(op.name, units, op.settings | {"low": (1,), "high": (0,)})[0])
    if op.get_trait(MovesElements) == MovesElements():
        same = all(bits_of(unit) == bits_of(units[0]) for unit in units)
        return widened(units[0]).item() if same else None
    return None


def _unit(op: SplatOp) -> Array:
    """Return one element of a splat."""
    return full((1,), op.number, dtype_of(op.res.type))


def _in_parts(op: ElementwiseOp, operands: Sequence[Array]) -> Array:
    """Return the result of an elementwise op. A large result is computed in parts, because NumPy
    kernels may need float64 copies of their operands."""
    shape = known_all(shape_of(op.res))
    size = _bytes(op.res)
    axis = next((d for d, extent in enumerate(shape) if extent > 1), None)
    if size <= _PART or axis is None:
        return op.evaluate(*operands)[0]
    result = np.empty(shape, dtype_of(op.res.type))
    views = [np.broadcast_to(array, shape) for array in operands]
    step = max(1, _PART * shape[axis] // size)
    for start in range(0, shape[axis], step):
        part = (*[slice(None)] * axis, slice(start, start + step))
        result[part] = op.evaluate(*(view[part] for view in views))[0]
    return result
