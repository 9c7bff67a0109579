"""A reference interpreter for Tile programs, which tries all integer points of each statement.

It has no notion of ranges, bases or lattices. A contraction begins with a large box of integers,
which is cut to where all constraints can hold, and halved, until its points are few enough to be
tried one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.tile import syntax
from tessella.frontends.tile.parse import parse
from tessella.frontends.tile.source import TileText

Array = npt.NDArray[Any]
Value = Array | int | float
Scope = dict[str, Value]

REACH = 1 << 16
"""Indices are tried between -REACH and REACH."""
GRID = 1 << 16
"""Points of a box that are tried at once."""


def run(program: str, *arrays: Array) -> dict[str, Array]:
    """The outputs of a program, by name."""
    return of_function(parse(TileText(program)), *arrays)


def of_function(function: syntax.TileFunction, *arrays: Array) -> dict[str, Array]:
    """The outputs of a program or step, by name."""
    scope: Scope = {}
    for parameter, array in zip(function.inputs, arrays, strict=True):
        scope[parameter.name.name] = array
        for dim, size in zip(parameter.dims or (), array.shape, strict=False):
            assert scope.setdefault(dim.name, size) == size
    for statement in function.statements:
        scope |= of_statement(statement, scope)
    return {name.name: as_array(scope[name.name]) for name in function.outputs}


def of_statement(statement: syntax.Statement, scope: Mapping[str, Value]) -> Scope:
    """Return the values that a statement assigns, by name."""
    match statement:
        case syntax.Contraction():
            return {statement.name.name: contraction(statement, scope)}
        case syntax.Assignment():
            return {statement.name.name: expression(statement.value, scope)}
        case syntax.Scan():
            return scan(statement, scope)


def as_array(value: Value) -> Array:
    """An output that is a number as an array."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return np.asarray(value, {bool: bool, int: np.int32, float: np.float32}[type(value)])


def scan(statement: syntax.Scan, scope: Mapping[str, Value]) -> Scope:
    """The function again and again, on elements of the sequences."""

    def ordered(sequence: syntax.SequenceRef, array: Array) -> Array:
        return array[::-1] if sequence.backward else array

    state, taken, others = (
        [as_array(scope[name.name]) for name in names]
        for names in (
            statement.carried,
            [each.name for each in statement.sequences],
            statement.others,
        )
    )
    taken = [ordered(each, x) for each, x in zip(statement.sequences, taken, strict=True)]
    rows: list[list[Array]] = []
    for elements in zip(*taken, strict=True):
        given = of_function(statement.step, *state, *map(np.asarray, elements), *others)
        results = list(given.values())
        state = results[: len(state)]
        rows.append(results[len(state) :])
    targets = statement.targets[len(state) :]
    stacked = zip(targets, zip(*rows, strict=True), strict=True)
    names = [target.name.name for target in statement.targets]
    return dict(zip(names, [*state, *(ordered(t, np.stack(x)) for t, x in stacked)], strict=True))


# ** types **


def common_type(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Floats before integers before booleans, then the wider, then the unsigned."""
    kinds = {"b": 0, "i": 1, "u": 1, "f": 2}
    return max(dtypes, key=lambda dtype: (kinds[dtype.kind], dtype.itemsize, dtype.kind == "u"))


def typed(values: Sequence[Value], *, arithmetic: bool = True) -> list[Array]:
    """Arrays of one type: numbers take that of the arrays, if they can."""
    dtypes = [np.asarray(v).dtype for v in values if isinstance(v, np.ndarray | bool)]
    if any(isinstance(v, float) for v in values):
        dtypes.append(np.dtype(np.float32))
    has_ints = any(type(v) is int for v in values)
    if has_ints and all(dtype.kind == "b" for dtype in dtypes) and arithmetic:
        dtypes.append(np.dtype(np.int32))
    dtype = common_type(dtypes)
    return [np.asarray(v).astype(dtype) for v in values]


# ** expressions **


def expression(expr: syntax.Expr, scope: Mapping[str, Value]) -> Value:
    """The value of an expression."""
    match expr:
        case syntax.Literal():
            return expr.value
        case syntax.Name():
            value = scope[expr.name]  # an element of a sequence is a tensor without dimensions
            return np.asarray(value) if isinstance(value, np.generic) else value
        case syntax.Apply():
            values = [expression(argument, scope) for argument in expr.arguments]
            if expr.function in ("as_float", "as_int", "as_uint", "as_bool"):
                bits = values[1] if len(values) > 1 else ""
                return np.asarray(values[0]).astype(f"{expr.function[3:]}{bits}")
            if expr.function in WHOLE:
                return np.asarray(WHOLE[expr.function](*values))
            if not any(isinstance(v, np.ndarray) for v in values):
                return of_numbers(expr.function, values)
            if expr.function == "cond":
                a, b = typed(values[1:])
                return np.where(np.asarray(values[0]) != 0, a, b)
            return np.asarray(FUNCTIONS[expr.function](*typed(values)))
        case syntax.IndexName():
            raise AssertionError(expr.name)


def of_numbers(function: str, values: Sequence[Any]) -> bool | int | float:
    """A function of numbers: of floats where one of them is a float."""
    if function == "cond":
        chosen, other = (values[1], values[2]) if values[0] else (values[2], values[1])
        return np.result_type(type(chosen), type(other)).type(chosen).item()
    kind = np.result_type(*map(type, values))
    return np.asarray(FUNCTIONS[function](*(np.asarray(v, kind) for v in values))).item()


def divide(a: Any, b: Any) -> Any:
    """Floats as usual; integers toward zero, and 0 for a divisor of 0."""
    if isinstance(a, float) or isinstance(b, float) or np.asarray(a).dtype.kind == "f":
        return a / b
    if np.asarray(a).dtype.kind == "u":
        return np.where(b == 0, a * 0, a // np.where(b == 0, 1, b).astype(a.dtype))
    whole = np.trunc(np.asarray(a, float) / np.where(np.asarray(b) == 0, 1, b))
    result = np.where(np.asarray(b) == 0, 0, whole)
    return result.astype(np.asarray(a).dtype) if isinstance(a, np.ndarray) else int(result)


def away_from_zero(x: Any) -> Any:
    """Rounded to the nearest integer, halves away from zero."""
    if x.dtype.kind != "f":
        return x
    return np.copysign(np.floor(np.abs(x) + 0.5), x).astype(x.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "neg": lambda a: -a,
    "ident": lambda a: a,
    "mad": lambda a, b, c: a * b + c,
    "abs": abs,
    "sign": np.sign,
    "relu": lambda a: np.maximum(a, a.dtype.type(0)),
    "min": np.minimum,
    "max": np.maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": away_from_zero,
    "cmp_eq": lambda a, b: a == b,
    "cmp_ne": lambda a, b: a != b,
    "cmp_lt": lambda a, b: a < b,
    "cmp_le": lambda a, b: a <= b,
    "cmp_gt": lambda a, b: a > b,
    "cmp_ge": lambda a, b: a >= b,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "bit_not": lambda a: ~a,
    "bit_left": np.left_shift,
    "bit_right": np.right_shift,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def gather(data: Array, indices: Array) -> Array:
    """The rows at the indices that are nearest to these; NumPy's own mode wraps uint64 first."""
    return np.take(data, np.clip(indices, 0, max(len(data) - 1, 0)), axis=0)


def scatter(values: Array, indices: Array, like: Array) -> Array:
    """The rows of the values, added to those of zeros."""
    return scattered("+", values, indices, like)


def scattered(aggregation: str, values: Array, indices: Array, like: Array) -> Array:
    """The rows of the values one after the other: the first one for a row replaces its zeros."""
    result = np.zeros((len(like), *values.shape[indices.ndim :]), values.dtype)
    seen: set[int] = set()
    for at in np.ndindex(indices.shape):
        row = min(max(int(indices[at]), 0), len(like) - 1)
        value = values[at]
        if row in seen:
            value = SCATTERED[aggregation](result[row], value)
        result[row] = value
        seen.add(row)
    return result


SCATTERED: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "*": np.multiply,
    ">": np.maximum,
    "<": np.minimum,
    "=": lambda _, new: new,
}
"""What an aggregation makes of an element and of one more value."""


def argsort(x: Array, axis: int = -1, descending: int = 0, count: int | None = None) -> Array:
    """Equal elements stay in order, also where the greatest come first."""
    keys = -np.unique(x, return_inverse=True)[1].reshape(x.shape) if descending else x
    places = np.argsort(keys, axis, kind="stable").astype(np.int32)
    return places if count is None else np.moveaxis(np.moveaxis(places, axis, 0)[:count], 0, axis)


WHOLE: dict[str, Callable[..., Any]] = {
    "gather": gather,
    "scatter": scatter,
    "scatter_mul": partial(scattered, "*"),
    "scatter_max": partial(scattered, ">"),
    "scatter_min": partial(scattered, "<"),
    "scatter_last": partial(scattered, "="),
    "index": lambda x, axis: np.indices(x.shape, np.int32)[axis],
    "shape": lambda x: np.asarray(x.shape, np.int32),
    "reshape": lambda x, *shape: x.reshape(shape),
    "argsort": argsort,
}
"""The functions of whole tensors."""


# ** contractions **

Form = tuple[dict[str, Fraction], Fraction]
"""Coefficients by index, and a constant."""
Row = tuple[dict[str, int], int, int, int]
"""A form times its denominator: coefficients, constant, the denominator, and the extent."""
Box = dict[str, tuple[int, int]]


def form(expr: syntax.Expr, scope: Mapping[str, Value]) -> Form:
    """A form of indices."""
    match expr:
        case syntax.IndexName():
            return {expr.name: Fraction(1)}, Fraction(0)
        case syntax.Literal():
            return {}, Fraction(expr.value)
        case syntax.Name():
            size = scope[expr.name]
            assert isinstance(size, int)
            return {}, Fraction(size)
        case syntax.Apply():
            parts = [form(argument, scope) for argument in expr.arguments]
            (a, c), (b, d) = parts[0], parts[-1]
            match expr.function:
                case "neg":
                    return scaled(parts[0], Fraction(-1))
                case "add" | "sub":
                    sign = 1 if expr.function == "add" else -1
                    names = [*a, *(n for n in b if n not in a)]
                    return {
                        n: a.get(n, Fraction(0)) + sign * b.get(n, 0) for n in names
                    }, c + sign * d
                case "mul":
                    return scaled(parts[1], c) if not a else scaled(parts[0], d)
                case _:
                    return scaled(parts[0], 1 / d)


def scaled(form: Form, factor: Fraction) -> Form:
    return {n: c * factor for n, c in form[0].items()}, form[1] * factor


def row(form: Form, extent: int) -> Row:
    coefficients, constant = form
    scale = math.lcm(constant.denominator, *(c.denominator for c in coefficients.values()))
    whole = {n: int(c * scale) for n, c in coefficients.items() if c}
    return whole, int(constant * scale), scale, extent


def cut(box: Box, rows: Sequence[Row]) -> Box | None:
    """The box without the ends at which a constraint cannot hold; None where nothing is left."""
    box = dict(box)
    changed = True
    while changed:
        changed = False
        for coefficients, constant, scale, extent in rows:
            low, high = -constant, (extent - 1) * scale - constant
            spans = {n: sorted((c * box[n][0], c * box[n][1])) for n, c in coefficients.items()}
            total = [sum(span[end] for span in spans.values()) for end in (0, 1)]
            if total[0] > high or total[1] < low:
                return None
            for n, c in coefficients.items():
                least, most = low - total[1] + spans[n][1], high - total[0] + spans[n][0]
                if c < 0:
                    least, most = -most, -least
                inside = max(box[n][0], -(-least // abs(c))), min(box[n][1], most // abs(c))
                if inside[0] > inside[1]:
                    return None
                if inside != box[n]:
                    box[n], changed = inside, True
                    break
            if changed:
                break
    return box


def boxes(box: Box, rows: Sequence[Row]) -> Iterator[Box]:
    """Small boxes that hold all valid points."""
    pending = [box]
    while pending:
        found = cut(pending.pop(), rows)
        if found is None:
            continue
        spans = {name: high - low + 1 for name, (low, high) in found.items()}
        if math.prod(spans.values()) <= GRID:
            yield found
            continue
        name = max(spans, key=spans.__getitem__)
        low, high = found[name]
        middle = (low + high) // 2
        pending += [{**found, name: (low, middle)}, {**found, name: (middle + 1, high)}]


def points(names: Sequence[str], rows: Sequence[Row]) -> dict[str, Array]:
    """All valid points: the values of each index."""
    found: list[Array] = [np.zeros((len(names), 0), np.int64)]
    for box in boxes(dict.fromkeys(names, (-REACH, REACH)), rows):
        axes = [np.arange(low, high + 1) for low, high in (box[n] for n in names)]
        grid = np.zeros((0, 1), np.int64)
        if names:
            grid = np.reshape(np.meshgrid(*axes, indexing="ij"), (len(names), -1))
        valid = np.ones(grid.shape[1], bool)
        for coefficients, constant, scale, extent in rows:
            value = constant + sum(c * grid[names.index(n)] for n, c in coefficients.items())
            valid &= (value % scale == 0) & (value >= 0) & (value < extent * scale)
        found.append(grid[:, valid])
    every = np.concatenate(found, axis=1)
    assert (np.abs(every) < REACH).all(), "an index has no bounds"
    return dict(zip(names, every, strict=True)) | {"": np.zeros(every.shape[1], np.int64)}


def contraction(statement: syntax.Contraction, scope: Mapping[str, Value]) -> Array:
    """The definition: over all valid points, combine and aggregate."""
    tensors = [scope[tensor.name.name] for tensor in statement.inputs]
    arrays = [tensor for tensor in tensors if isinstance(tensor, np.ndarray)]
    default = scope[statement.default.name] if statement.default is not None else None
    if statement.sizes is None:
        assert isinstance(default, np.ndarray)
        shape = default.shape
    else:
        shape = tuple(int(expression(size, scope)) for size in statement.sizes)
    refs = (statement.target, *statement.inputs)
    shapes = [shape, *(array.shape for array in arrays)]
    forms = [[form(f, scope) for f in ref.forms] for ref in refs]
    rows = [
        row(f, extent)
        for group, sizes in zip(forms, shapes, strict=True)
        for f, extent in zip(group, sizes, strict=True)
    ]
    rows += [
        row(form(c.form, scope), int(expression(c.bound, scope))) for c in statement.constraints
    ]
    names = list(dict.fromkeys(n for coefficients, *_ in rows for n in coefficients))
    valid = points(names, rows)
    elements = [tuple(_coordinates(f, valid) for f in group) or (valid[""],) for group in forms]
    values = [
        array.reshape(array.shape or (1,))[at]
        for array, at in zip(arrays, elements[1:], strict=True)
    ]
    combined = combine(statement.combination, values)
    return aggregate(statement.aggregation, combined, elements[0], shape, default)


def _coordinates(form: Form, valid: Mapping[str, Array]) -> Array:
    coefficients, constant, scale, _ = row(form, 0)
    total = valid[""] + constant + sum(c * valid[n] for n, c in coefficients.items())
    return total // scale


def combine(combination: str, values: Sequence[Array]) -> Array:
    match combination:
        case "":
            return values[0]
        case "?":
            a, b = typed(values[:2])
            return np.where(a == b, values[2], values[2].dtype.type(0))
        case "==":
            a, b = typed(values)
            return a == b
        case _:
            a, b = typed(values)
            return a * b if combination == "*" else a + b


def aggregate(
    aggregation: str, values: Array, at: tuple[Array, ...], shape: tuple[int, ...], default: Any
) -> Array:
    """The first value of an element is taken as it is; others are aggregated with it."""
    ufuncs = {"+": np.add, "*": np.multiply, ">": np.maximum, "<": np.minimum}
    result = np.zeros(shape or (1,), values.dtype)
    if default is not None:
        result[...] = default
    flat = np.ravel_multi_index(at, result.shape) if result.size else np.zeros(0, np.int64)
    if aggregation == "=":
        assert len(np.unique(flat)) == len(flat), "an element is assigned twice"
    out = result.reshape(-1)
    reached, first = np.unique(flat, return_index=True)
    out[reached] = values[first]
    rest = np.ones(len(flat), bool)
    rest[first] = False
    if rest.any():
        ufuncs[aggregation].at(out, flat[rest], values[rest])
    return out.reshape(shape)
