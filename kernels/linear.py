"""Kernels of matrix products and convolutions: contractions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.arith import LookupOp
from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.layout import BLOCKED, NCHW, NHWC
from tessella.dialects.nn import linear
from tessella.dialects.nn.core import is_float, shape_of, tensor_type
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.cost import KernelWork, bytes_of
from tessella.kernels.elements import FLOATS, PRODUCTS, T, rows
from tessella.kernels.registry import native
from tessella.support.decisions import known
from tessella.support.sizes import Size, estimated


def multiply(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    """Return the product of two elements."""
    a, b = args
    return s.op((arith.MulfOp if is_float(a.type) else arith.MuliOp)(a, b))


def add_bias(k: KernelBuilder, total: SSAValue, bias: SSAValue, axis: int) -> SSAValue:
    """Add a vector along one axis of the result."""
    type = tensor_type(total)
    free = {f"d{i}": n for i, n in enumerate(shape_of(type))}
    forms = list(free)
    add = arith.AddfOp if is_float(type.element_type) else arith.AddiOp
    return k.contract(
        "=",
        free,
        {},
        [(total, forms), (bias, [forms[axis]])],
        (type, forms),
        lambda s, args: s.op(add(args[0], args[1])),
    )


def batch_forms(shape: Sequence[Size], out: Sequence[Size]) -> list[Form]:
    """Return the access to an operand's batch dimensions of shape ``shape``: the indices ``b0``,
    ``b1`` .. of the result's batch dimensions ``out``, and 0 for dimensions that broadcast."""
    skip = len(out) - len(shape)
    return [f"b{skip + d}" if n == out[skip + d] else 0 for d, n in enumerate(shape)]


@native(linear.MatmulOp, "matmul", NCHW, elements=PRODUCTS)
def matmul(k: KernelBuilder, op: linear.MatmulOp, a: SSAValue, b: SSAValue) -> SSAValue:
    """Emit the matrix product R[b.., m, n] = +(A[b.., m, k] * B[b.., k, n])."""
    type = k.result_type(op)
    *batch, m, n = shape_of(type)
    inner: list[Form] = ["n", "k"] if op.settings["transpose_b"] else ["k", "n"]
    free = {**{f"b{i}": extent for i, extent in enumerate(batch)}, "m": m, "n": n}
    return k.contract(
        "+",
        free,
        {"k": shape_of(a)[-1]},
        [
            (a, [*batch_forms(shape_of(a)[:-2], batch), "m", "k"]),
            (b, [*batch_forms(shape_of(b)[:-2], batch), *inner]),
        ],
        (type, list(free)),
        multiply,
    )


@native(linear.FcOp, "fc", NCHW, elements=PRODUCTS)
def fc(k: KernelBuilder, op: linear.FcOp, x: SSAValue, w: SSAValue, b: SSAValue) -> SSAValue:
    """Emit R[m.., n] = +(X[m.., k] * W[k, n]), then add B[n]."""
    type = k.result_type(op)
    *rows, n = shape_of(type)
    free = {**{f"m{i}": extent for i, extent in enumerate(rows)}, "n": n}
    forms: list[Form] = ["n", "k"] if op.settings["transpose_w"] else ["k", "n"]
    total = k.contract(
        "+",
        free,
        {"k": shape_of(x)[-1]},
        [(x, [*list(free)[:-1], "k"]), (w, forms)],
        (type, list(free)),
        multiply,
    )
    return add_bias(k, total, b, len(rows))


@native(
    linear.PackedMatmulOp,
    "packed_matmul",
    NCHW,
    elements=(
        *rows(FLOATS, (T, "i32", T)),
        *rows(FLOATS, ("i16", "i16", T)),
        *rows(FLOATS, ("i8", "i8", T)),
    ),
)
def packed_matmul(
    k: KernelBuilder,
    op: linear.PackedMatmulOp,
    x: SSAValue,
    w: SSAValue,
    scale: SSAValue,
    steps: SSAValue | None = None,
) -> SSAValue:
    """Emit R[m.., n] = +(X[m.., k] * value(W[n, b, q, i], t) * S[n, b]), where value t of word i of
    group q in block b is number k of its column. The products of integers are scaled by S[n, b] *
    steps[m.., b]. A value is a signed integer, or the entry of a table for an unsigned one."""
    type, each, bits, table = k.result_type(op), op.each, op.settings["bits"], op.settings["table"]
    *outer, n = shape_of(type)
    _, blocks, words, group = shape_of(w)
    free = {**{f"m{i}": extent for i, extent in enumerate(outer)}, "n": n}
    row: list[Form] = [name for name in free if name != "n"]
    count = known(group) * each
    along = Linear.of("b", known(words) * count) + Linear.of("q", count)
    along += Linear.of("t", known(group)) + Linear.of("i")
    integers = [] if steps is None else [(steps, [*row, "b"])]

    def field(s: Scalars, word: SSAValue, wide: Attribute) -> SSAValue:
        if not table:
            return s.cast(signed_field(s, word, "t", bits), wide)
        below = s.op(
            arith.MuliOp(s.op(arith.IndexCastOp(s.index("t"), word.type)), s.like(bits, word))
        )
        code = s.op(arith.ShRUIOp(word, below))
        return s.cast(s.op(LookupOp(code, table, attribute_of("f32"))), wide)

    def scaled(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
        a, word, *scales = args
        wide = scales[0].type if steps is None else i32
        value = field(s, word, wide)
        product = s.cast(multiply(s, (s.cast(a, wide), value)), scales[0].type)
        return multiply(s, (product, reduce(lambda x, y: multiply(s, (x, y)), scales)))

    return k.contract(
        "+",
        free,
        {"b": blocks, "q": words, "t": each, "i": group},
        [(x, [*row, along]), (w, ["n", "b", "q", "i"]), (scale, ["n", "b"]), *integers],
        (type, list(free)),
        scaled,
    )


def signed_field(s: Scalars, word: SSAValue, index: str, bits: int) -> SSAValue:
    """Return a signed integer of ``bits`` bits from a word that holds several. The value of the
    index ``index`` is the number of the integer in the word, counted from the lowest bits."""
    last = element_of(word.type).bits - bits
    number = s.op(arith.IndexCastOp(s.index(index), word.type))
    below = s.op(arith.MuliOp(number, s.like(bits, number)))
    left = s.op(arith.ShLIOp(word, s.op(arith.SubiOp(s.like(last, below), below))))
    return s.op(arith.ShRSIOp(left, s.like(last, left)))


def spatial_names(rank: int) -> tuple[list[str], list[str]]:
    """Return names of the output's spatial indices and of the filter's, for a spatial rank."""
    if rank == 2:
        return ["y", "x"], ["i", "j"]
    return [f"x{d}" for d in range(rank)], [f"k{d}" for d in range(rank)]


def window_forms(
    out: Sequence[str],
    kernel: Sequence[str],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[Form]:
    """Return ``stride * x + dilation * k - pad`` for each spatial dimension."""
    return [
        Linear.of(o, s) + Linear.of(j, d) - p
        for o, j, s, d, p in zip(out, kernel, strides, dilations, pads, strict=False)
    ]


def products(op: linear.ConvOp) -> KernelWork:
    """Return a lower bound on the work of a convolution: the products of all windows with all
    filters."""
    return KernelWork(estimated(op.operations), element_of(op.res.type).bits, bytes_of(op.w))


@native(
    linear.ConvOp,
    "conv",
    NHWC,
    NCHW,
    BLOCKED,
    elements=PRODUCTS,
    operands={1: NCHW},
    work=products,
)
def conv(
    k: KernelBuilder,
    op: linear.ConvOp,
    x: SSAValue,
    w: SSAValue,
    b: SSAValue | None = None,
) -> SSAValue:
    """Emit a convolution, then add B. With padding 1 and stride 1, for example: R[n, g*O + o, y, x]
    = +(X[n, g*C + c, y + i - 1, x + j - 1] * W[g*O + o, c, i, j])."""
    settings, type = op.settings, k.result_type(op)
    groups = settings["groups"]
    out_channels, per_in, *kernel = shape_of(w)
    per_out = out_channels // groups
    batch, _, *extents = shape_of(type)
    spatial, taps = spatial_names(len(kernel))
    window = window_forms(
        spatial, taps, settings["strides"], settings["dilations"], settings["pads"]
    )
    free = {"n": batch}
    reduced = dict(zip(taps, kernel, strict=True))
    if groups == 1:
        free |= {"o": per_out}
        source, target, weight = Linear.of("c"), Linear.of("o"), ["o", "c"]
    elif per_in == per_out == 1:
        free |= {"g": groups}
        source = target = Linear.of("g")
        weight = ["g", 0]
    else:
        free |= {"g": groups, "o": per_out}
        source = Linear.of("g", known(per_in)) + Linear.of("c")
        target = Linear.of("g", known(per_out)) + Linear.of("o")
        w = k.reshaped(w, [groups, per_out, per_in, *kernel])
        weight = ["g", "o", "c"]
    free |= dict(zip(spatial, extents, strict=True))
    if "c" in weight:
        reduced |= {"c": per_in}
    total = k.contract(
        "+",
        free,
        reduced,
        [(x, ["n", source, *window]), (w, [*weight, *taps])],
        (type, ["n", target, *spatial]),
        multiply,
    )
    return total if b is None else add_bias(k, total, b, 1)
