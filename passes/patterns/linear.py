"""Fully connected layers, and transposed operands.

    x[.., K] w[K, N] + b[N]                            ->  fc x w b
    reshape(x w) + b                                   ->  fc (reshape x) w b
    reshape((reshape x) w)                             ->  x w
    reshape(fc (reshape x) w b)                        ->  fc x w b
    matmul(x, transpose y)                             ->  matmul(x, y) with transpose_b inverted
    (c * x) w                                          ->  x (c * w)
    (x[.., K] * s[K]) w[K, N]                          ->  x (s[K, 1] * w)
    x u, x v, x w                                      ->  slices of x [u v w]

The reshapes around a product are dropped if the result has the shape of x except for the last
dimension. A transpose must swap the last two axes, and all its uses must be second operands of
products. With other uses, the transpose is computed anyway, and reading its result costs nothing
extra.

In the last three rules, the weights are constants, and so is s, which may also divide x. Two or
three products that share an operand are merged if copying the slices costs less than reading the
operand again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.dialects.nn.elementwise import AddOp, DivOp, MulOp
from tessella.dialects.nn.linear import FcOp, MatmulOp
from tessella.dialects.nn.movement import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from tessella.passes.base import is_constant
from tessella.passes.fold_constants import will_be_constant
from tessella.passes.patterns.factors import is_normal
from tessella.passes.patterns.nodes import AnyValue, Node, Product, either, op
from tessella.passes.patterns.pattern import Match, Pattern
from tessella.support.sizes import Size


def _is_matrix(value: SSAValue) -> bool:
    return len(shape_of(value)) == 2


x, w, bias = AnyValue("x"), AnyValue("w", where=_is_matrix), AnyValue("bias")

# ** layers **

_PRODUCT = op(MatmulOp, x, w, name="product")
_LAYER = op(AddOp, either(_PRODUCT, op(ReshapeOp, _PRODUCT)), bias)


def _layer(m: Match) -> NnOp | None:
    shape, product = m.shape, shape_of(m["product"])
    if shape[-1:] != product[-1:] or math.prod(shape) != math.prod(product):
        return None
    vector = _vector(m, m["bias"], shape[-1])
    if vector is None:
        return None
    x = m.reshaped(m["x"], (*shape[:-1], shape_of(m["x"])[-1]))
    inner: MatmulOp = m.op("product")
    return m.make(FcOp, x, m["w"], vector, transpose_w=inner.transpose_b, sums=inner.sums)


def _vector(m: Match, bias: SSAValue, size: Size) -> SSAValue | None:
    """Return a bias along the last axis as a vector; None if it is not one."""
    if isinstance(bias.owner, SplatOp):
        return m.splat(bias.owner.number, [size], bias)
    shape = shape_of(bias)
    is_vector = bool(shape) and shape == (*[1] * (len(shape) - 1), size)
    return m.reshaped(bias, [size]) if is_vector else None


def _unshaped(kind: type[NnOp], *operands: Node) -> Node:
    return op(ReshapeOp, op(kind, op(ReshapeOp, x, name="rows"), *operands, name="product"))


def _as_before(m: Match) -> NnOp | None:
    """Return the product of x without the reshapes around it; None if the reshape of x changes its
    last dimension."""
    shape = shape_of(m["x"])
    if len(shape) < 2 or shape[-1] != shape_of(m["rows"])[-1]:
        return None
    product: NnOp = m.op("product")
    return m.make(type(product), m["x"], *product.operands[1:], **product.setting_properties)


# ** transposed operands **


def _is_flag(transpose: TransposeOp) -> bool:
    """Return whether a transpose swaps the last two axes, and all its users can read its operand by
    a property for transposed operands."""
    if isinstance(transpose.x.owner, TransposeOp):
        return False  # two transposes become one at no cost
    perm = transpose.settings["perm"]
    rank = len(perm)
    swaps_last = rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)
    uses = transpose.res.uses
    return swaps_last and all(use.index == 1 and _flag(use.operation) for use in uses)


def _flag(op: Operation) -> str | None:
    """Return the name of the property by which an op reads its second operand transposed; None if
    it has none."""
    return op.TRANSPOSES if isinstance(op, NnOp) else None


_TURNED = op(TransposeOp, AnyValue("y"), where=_is_flag, shared=True)


def _turn(m: Match) -> NnOp:
    first, _, *others = m.root.operands
    flag = _flag(m.root)
    assert flag is not None
    settings = {**m.root.settings, flag: not m.root.settings[flag]}
    return m.make(type(m.root), first, m["y"], *others, **settings)


def _reads_turned(kind: type[NnOp], *others: str) -> Pattern:
    node = op(kind, x, _TURNED, *map(AnyValue, others))
    return Pattern("transposed-operand", node, _turn)


# ** constant weights **


def _is_weight(value: SSAValue) -> bool:
    return will_be_constant(value) and _is_matrix(value)


_KINDS = {MatmulOp: (), FcOp: ("b",)}
"""Ops that multiply by a matrix, and the names of their operands besides x and the matrix."""


def _scaled(kind: type[NnOp], *others: str) -> Pattern:
    scaled = Product((x,), scale="c")
    node = op(kind, scaled, AnyValue("w", where=_is_weight), *map(AnyValue, others), name="product")
    return Pattern(
        "scaled-operand", node, lambda m: _scale(m, *(m[name] for name in others)), is_late=True
    )


def _scale(m: Match, *others: SSAValue) -> NnOp | None:
    """Return the product with its weights multiplied by the scale; None if the pattern matched no
    scale, or if a scaled weight is not finite."""
    factor, x, w = m.number("c"), m["x"], m["w"]
    if factor == 1 or shape_of(x) != shape_of(m.root.operands[0]) or not is_normal(factor, x):
        return None
    weights = m.make(MulOp, w, m.splat(factor, (), w)).res
    if not m.is_finite(weights):
        return None
    return m.make(type(m.root), x, weights, *others, **m.root.setting_properties)


_COLUMNS = AnyValue("s", where=will_be_constant)
_SCALED = either(*(op(each, x, _COLUMNS, name="scaling") for each in (MulOp, DivOp)))


def _scaled_columns(kind: type[NnOp], *others: str) -> Pattern:
    node = op(kind, _SCALED, AnyValue("w", where=_is_weight), *map(AnyValue, others))
    return Pattern(
        "scaled-operand",
        node,
        lambda m: _scale_rows(m, *(m[name] for name in others)),
        is_late=True,
    )


def _scale_rows(m: Match, *others: SSAValue) -> NnOp | None:
    """Return the product with rows of weights scaled as the columns of x were; None if x is scaled
    otherwise, or if a scaled weight is not finite."""
    scaling: NnOp = m.op("scaling")
    x = m["x"]
    size = shape_of(x)[-1] if shape_of(x) else 0
    vector = _vector(m, m["s"], size)
    if (
        vector is None
        or x.type != scaling.results[0].type
        or not is_float(tensor_type(x).element_type)
    ):
        return None
    is_turned = m.root.settings[_flag(m.root) or ""]
    factors = m.reshaped(vector, (size,) if is_turned else (size, 1))
    weights = m.make(type(scaling), m["w"], factors).results[0]
    if not m.is_finite(weights):
        return None
    return m.make(type(m.root), x, weights, *others, **m.root.setting_properties)


def _together(kind: type[NnOp], others: Sequence[str], count: int) -> Pattern:
    """Return the pattern that merges ``count`` products with a common operand into one product."""
    roots = [
        op(
            kind,
            x,
            AnyValue(f"w{i}", where=_is_weight),
            *(AnyValue(f"{name}{i}", where=is_constant) for name in others),
        )
        for i in range(count)
    ]
    return Pattern("products-of-one", roots[0], _join, others=tuple(roots[1:]), gain="open")


def _join(m: Match) -> list[SSAValue] | None:
    """Return slices of one merged product; None if the products differ in properties or in element
    types."""
    first, *rest = m.roots
    if any(root.settings != first.settings for root in rest):
        return None
    axis = 0 if first.settings[_flag(first) or ""] else 1
    columns = list(zip(*(root.operands[1:] for root in m.roots), strict=True))
    if any(len({tensor_type(x).element_type for x in same}) > 1 for same in columns):
        return None
    read = [m.make(ConcatOp, *same, axis=axis if i == 0 else 0) for i, same in enumerate(columns)]
    operands = (op.res for op in read)
    product = m.make(type(first), m["x"], *operands, **first.setting_properties).results[0]
    return list(_slices(m, product))


def _slices(m: Match, product: SSAValue) -> Iterator[SSAValue]:
    """Yield the slice of the merged product for each root."""
    start: Size = 0
    for root in m.roots:
        sizes = shape_of(root.results[0])
        at = (*[0] * (len(sizes) - 1), start)
        yield m.make(SliceOp, product, starts=at, sizes=sizes, steps=(1,) * len(sizes)).res
        start = start + sizes[-1]


PATTERNS = (
    Pattern("fc", _LAYER, _layer),
    Pattern("fc-reshape", _unshaped(FcOp, w, bias), _as_before),
    Pattern("matmul-reshape", _unshaped(MatmulOp, w), _as_before),
    _reads_turned(MatmulOp),
    _reads_turned(FcOp, "b"),
    _reads_turned(AttentionOp, "v"),
    _reads_turned(AttentionOp, "v", "mask"),
    *(_scaled(kind, *others) for kind, others in _KINDS.items()),
    *(_scaled_columns(kind, *others) for kind, others in _KINDS.items()),
    *(_together(kind, others, n) for n in (3, 2) for kind, others in _KINDS.items()),
)
