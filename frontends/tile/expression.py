"""Evaluation of expressions: to numbers if these are known before the program runs, otherwise to
steps of scalar code with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tessella.dialects.nn.core import broadcast_shapes
from tessella.dialects.tile.maths import Affine
from tessella.dialects.tile.maths.limits import MAX_INDICES
from tessella.frontends.tile.folding import folded
from tessella.frontends.tile.functions import CASTS, FUNCTIONS, ScalarFunction
from tessella.frontends.tile.of_sizes import Known, of_sizes
from tessella.frontends.tile.source import Span, TileText
from tessella.frontends.tile.syntax import Apply, Expr, IndexName, Literal, Name, postorder
from tessella.runtime.specs import TensorSpec
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import decided_zero, known
from tessella.support.errors import InternalError, ShapeError
from tessella.support.sizes import Expr as OpenSize
from tessella.support.sizes import Size

DType = np.dtype[Any]
Value = TensorSpec | Known
Scope = Mapping[str, Value]
"""The meaning of each name: the spec of a tensor, or a known number."""

_WIDER = [
    np.dtype(name)
    for name in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()
]
"""All types in the order of promotion: the common type of several types is the last of them in this
list."""
BOOL, INT, FLOAT = np.dtype(bool), np.dtype(np.int32), np.dtype(np.float32)
_BITS = 64
"""Limit on the number of bits of the numerator and the denominator of a coefficient."""


@dataclass(frozen=True)
class ElementRead:
    """A step that reads the element of a tensor."""

    tensor: str


@dataclass(frozen=True)
class NumberLiteral:
    """A step that yields a number."""

    value: Known
    dtype: DType


@dataclass(frozen=True)
class Cast:
    """A step that converts the value of an earlier step to another type."""

    argument: int
    dtype: DType


@dataclass(frozen=True)
class Compute:
    """A step that applies a function to the values of earlier steps, which all have one type."""

    function: ScalarFunction
    arguments: tuple[int, ...]


Step = ElementRead | NumberLiteral | Cast | Compute


@dataclass(frozen=True)
class ScalarSteps:
    """The steps of scalar code that compute one element of a tensor, and the index of the step that
    yields it."""

    steps: tuple[Step, ...]
    result: int
    spec: TensorSpec
    """The spec of the whole tensor."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tensors whose elements are read."""
        return tuple(step.tensor for step in self.steps if isinstance(step, ElementRead))


@dataclass(frozen=True)
class _Operand:
    """The value of a subexpression: a known number, or the result of a step."""

    number: Known | None
    dtype: DType | None = None
    shape: tuple[Size, ...] = ()
    step: int = -1


def supported(dtype: DType) -> bool:
    """Return whether elements of a type have native code."""
    return dtype in _WIDER


def common_dtype(dtypes: Sequence[DType]) -> DType:
    """Return the type to which values of these types are promoted."""
    return max(dtypes, key=_WIDER.index)


def evaluate(expr: Expr, scope: Scope, source: TileText) -> Known | ScalarSteps:
    """Return the number that an expression is, or the steps that compute it. Raises TileError."""
    return _Evaluation(scope, source).run(expr)


def number(expr: Expr, scope: Scope, source: TileText) -> Size:
    """Return the integer that an expression (a size or a bound) is. Raises TileError if it is not
    an integer."""
    value = evaluate(expr, scope, source)
    if isinstance(value, ScalarSteps):
        raise source.error("not an integer", expr.span, found="a tensor")
    return _integer(value, expr, source)


def _integer(value: Value, expr: Expr, source: TileText) -> Size:
    if isinstance(value, OpenSize):
        return value
    if isinstance(value, TensorSpec) or value != int(value):
        raise source.error("not an integer", expr.span, found=str(value))
    return int(value)


def form(expr: Expr, scope: Scope, source: TileText) -> Affine:
    """Return the affine form of an index expression, in which ``/`` divides exactly. Raises
    TileError if it is not affine."""
    stack: list[Affine] = []
    for node in postorder(expr):
        if isinstance(node, Apply):
            arguments = [stack.pop() for _ in node.arguments][::-1]
            stack.append(_applied(node, arguments, source))
        elif isinstance(node, IndexName):
            stack.append(Affine.of(node.name))
        else:
            value = scope[node.name] if isinstance(node, Name) else node.value
            stack.append(Affine.number(_integer(value, node, source)))
        _check_size(stack[-1], node, source)
    return stack.pop()


def _applied(node: Apply, arguments: Sequence[Affine], source: TileText) -> Affine:
    first, last = arguments[0], arguments[-1]
    match node.function:
        case "add":
            return first + last
        case "sub":
            return first - last
        case "neg":
            return -first
        case "mul" if not first.terms:
            return last * first.constant
        case "mul" if not last.terms:
            return first * last.constant
        case "mul":
            what, found = "a product of two indices is not affine", f"({first}) * ({last})"
        case _ if last.terms:
            what, found = "a quotient by an index is not affine", f"({first}) / ({last})"
        case _ if last.constant == 0:
            what, found = "division by zero", f"({first}) / 0"
        case _:
            return first / last.constant
    raise source.error(what, node.at, found=found)


def _check_size(affine: Affine, node: Expr, source: TileText) -> None:
    """Raise TileError if an index form has too many terms or too large coefficients, which would
    make computing with it expensive."""
    if len(affine.terms) > MAX_INDICES:
        raise source.error("too many indices", node.span, expected=f"at most {MAX_INDICES}")
    numbers = [affine.constant, *(c for _, c in affine.terms)]
    plain = [x for x in numbers if not isinstance(x, OpenSize)]
    if any(max(abs(x.numerator), x.denominator) >> (_BITS - 1) for x in plain):
        raise source.error(
            "a coefficient is too large", node.span, expected=f"numbers of {_BITS} bits"
        )


@dataclass
class _Evaluation:
    scope: Scope
    source: TileText
    steps: list[Step] = field(default_factory=list[Step])
    reads: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, expr: Expr) -> Known | ScalarSteps:
        stack: list[_Operand] = []
        for node in postorder(expr):
            arguments: list[_Operand] = []
            if isinstance(node, Apply):
                arguments = [stack.pop() for _ in node.arguments][::-1]
            stack.append(self._operand(node, arguments))
        result = stack.pop()
        if result.dtype is None:
            assert result.number is not None
            return result.number
        spec = TensorSpec(result.shape, result.dtype)
        return ScalarSteps(tuple(self.steps), result.step, spec)

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _operand(self, node: Expr, arguments: Sequence[_Operand]) -> _Operand:
        match node:
            case Literal():
                return _Operand(node.value)
            case Name():
                return self._name(node)
            case Apply() if node.function in CASTS:
                return self._cast(node, arguments)
            case Apply():
                if all(a.number is not None for a in arguments):
                    return _Operand(self._folded(node, arguments))
                return self._computed(node, arguments)
            case IndexName():
                raise InternalError(f"the index {node.name} in an expression was not reported")

    def _name(self, node: Name) -> _Operand:
        value = self.scope[node.name]
        if not isinstance(value, TensorSpec):
            return _Operand(value)
        if node.name not in self.reads:
            self.reads[node.name] = self._add(ElementRead(node.name))
        return _Operand(None, value.dtype, value.shape, self.reads[node.name])

    def _folded(self, node: Apply, arguments: Sequence[_Operand]) -> Known:
        function = FUNCTIONS[node.function]
        dtype = self._computing(node, function, arguments[function.conditions :])
        given = [a.number for a in arguments if a.number is not None]
        numbers = [x for x in given if not isinstance(x, OpenSize)]
        try:
            if len(numbers) < len(given):
                return of_sizes(node.function, given)
            return folded(function, numbers, dtype.kind)
        except ValueError as error:
            raise self.source.error(
                f"{self._shown(node.at)!r} cannot be computed: {error}",
                node.at,
                found=", ".join(map(str, given)),
            ) from None

    def _cast(self, node: Apply, arguments: Sequence[_Operand]) -> _Operand:
        types = CASTS[node.function]
        if not types:
            dtype = BOOL
        else:
            bits = arguments[1].number
            bits = known(bits) if isinstance(bits, OpenSize) else bits
            if bits is None or bits not in types:
                raise self.source.error(
                    f"{node.function!r} to a type that there is no code for",
                    node.arguments[1].span,
                    expected=f"one of {', '.join(map(str, types))} bits",
                    found="a tensor" if bits is None else str(bits),
                )
            dtype = np.dtype(types[int(bits)])
        operand = arguments[0]
        step = self._as(operand, dtype, node.arguments[0])
        return _Operand(None, dtype, operand.shape, step)

    def _computed(self, node: Apply, arguments: Sequence[_Operand]) -> _Operand:
        function = FUNCTIONS[node.function]
        dtype = self._computing(node, function, arguments[function.conditions :])
        wanted = [BOOL] * function.conditions + [dtype] * (function.arity - function.conditions)
        steps = [
            self._as(operand, to, part)
            for operand, to, part in zip(arguments, wanted, node.arguments, strict=True)
        ]
        try:
            shape = broadcast_shapes([a.shape for a in arguments])
        except ShapeError as error:
            raise self.source.error(
                error.what, node.at, expected=error.expected, found=error.found
            ) from None
        step = self._add(Compute(function, tuple(steps)))
        return _Operand(None, BOOL if function.compares else dtype, shape, step)

    def _computing(
        self, node: Apply, function: ScalarFunction, operands: Sequence[_Operand]
    ) -> DType:
        """Return the type in which a function computes, from its operands. Raises TileError if the
        function is not defined for it."""
        dtypes = [a.dtype for a in operands if a.dtype is not None]
        numbers = [_dtype_of(a.number) for a in operands if a.number is not None]
        dtypes += [dtype for dtype in numbers if dtype != INT]  # a known integer adapts to any type
        dtype = common_dtype(dtypes or [INT])
        if dtype == BOOL and len(dtypes) < len(operands):
            dtype = INT
        if function.floating:
            dtype = common_dtype([dtype, FLOAT])
        if dtype.kind.replace("u", "i") not in function.kinds:
            raise self.source.error(
                f"{self._shown(node.at)!r} is not defined for {dtype.name}",
                node.at,
                expected=" or ".join(_KINDS[kind] for kind in function.kinds),
                hint="convert with as_int(x, 32) or as_float(x, 32)",
            )
        return dtype

    def _as(self, operand: _Operand, dtype: DType, node: Expr) -> int:
        """Return the index of a step that yields an operand converted to a type."""
        if operand.number is not None:
            return self._add(NumberLiteral(self._fitting(operand.number, dtype, node), dtype))
        if operand.dtype == dtype:
            return operand.step
        return self._add(Cast(operand.step, dtype))

    def _fitting(self, value: Known, dtype: DType, node: Expr) -> Known:
        if dtype == BOOL:
            return int(not decided_zero(value) if isinstance(value, OpenSize) else value != 0)
        error = misfit(value, dtype)
        if error is not None:
            raise self.source.error(error, node.span, found=str(value))
        return int(value) if isinstance(value, bool) else value

    def _shown(self, span: Span) -> str:
        return self.source.text[span.start : span.end]


_KINDS = {"b": "booleans", "i": "integers", "f": "floats"}


def _dtype_of(value: Known) -> DType:
    """Return the type that a number has if no operand determines it: bool, int32 or float32."""
    if isinstance(value, bool):
        return BOOL
    return INT if isinstance(value, int | OpenSize) else FLOAT


def constant(value: Known) -> ScalarSteps:
    """Return the scalar code of a tensor of rank 0 that is a number, of type bool, int32 or
    float32."""
    dtype = _dtype_of(value)
    return ScalarSteps((NumberLiteral(value, dtype),), 0, TensorSpec((), dtype))


def misfit(value: Known, dtype: DType) -> str | None:
    """Return why a number does not fit into a type; None if it fits. All numbers fit into bool.

    Raises UndecidedSizeError for a symbolic size that may not fit.
    """
    if dtype == BOOL:
        return None
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    least, most = float(limits.min), float(limits.max)
    if isinstance(value, OpenSize):
        low, high = value.bounds
        if not least <= low <= high <= most:
            raise UndecidedSizeError(f"{value} may not fit into {dtype.name}", value.names)
        return None
    return None if least <= value <= most else f"a number does not fit into {dtype.name}"
