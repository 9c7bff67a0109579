"""The table of single ops that `bench.ops` measures.

A shape is a text of sizes, such as `1 64 n 2*n`. The number n follows from a budget of bytes for
inputs and outputs, so that one row serves all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tessella.tools.measure import Array

OPSET, IR_VERSION = 21, 10

_TYPES: Mapping[str, tuple[int, Any]] = {
    "f32": (TensorProto.FLOAT, np.float32),
    "f64": (TensorProto.DOUBLE, np.float64),
    "f16": (TensorProto.FLOAT16, np.float16),
    "i64": (TensorProto.INT64, np.int64),
    "i32": (TensorProto.INT32, np.int32),
    "i8": (TensorProto.INT8, np.int8),
    "u8": (TensorProto.UINT8, np.uint8),
    "u32": (TensorProto.UINT32, np.uint32),
    "bool": (TensorProto.BOOL, np.bool_),
}

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape, int], Array]
"""Draws an operand from its shape and n, before it is converted to its element."""


@dataclass(frozen=True)
class Operand:
    """An input of the model, or a constant."""

    shape: str
    element: str = "f32"
    draw: Draw | None = None
    """None for normally distributed numbers, or any integers from 1 to 100."""
    constant: bool = False

    def array(self, rng: np.random.Generator, n: int) -> Array:
        """Draw the values for n."""
        kind = np.dtype(_TYPES[self.element][1])
        draw = self.draw or (_normal if kind.kind not in "iub" else _integers)
        return np.asarray(draw(rng, sizes(self.shape, n), n)).astype(kind)


@dataclass(frozen=True)
class OpCase:
    """A model of one node, for any n."""

    op: str
    variant: str
    operands: tuple[Operand | None, ...]
    """None is an absent operand."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: int = 1
    declared: Operand | None = None
    """The output, if ONNX infers no shape and type."""
    domain: str = ""

    @property
    def name(self) -> str:
        return f"{self.op} {self.variant}".strip()

    def model(self, n: int) -> onnx.ModelProto:
        """Return the model, with inferred output shapes."""
        rng = np.random.default_rng(0)
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.operands)]
        named = [(name, x) for name, x in zip(names, self.operands, strict=True) if x is not None]
        inputs = [_info(name, x, n) for name, x in named if not x.constant]
        fixed = [numpy_helper.from_array(x.array(rng, n), name) for name, x in named if x.constant]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.settings)
        graph = helper.make_graph(
            [node], "op", inputs, [self._result(name, n) for name in results], fixed
        )
        opsets = [helper.make_opsetid("", OPSET)]
        opsets += [helper.make_opsetid(self.domain, 1)] if self.domain else []
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)

    def _result(self, name: str, n: int) -> onnx.ValueInfoProto:
        if self.declared is None:
            return onnx.ValueInfoProto(name=name)
        return _info(name, self.declared, n)

    def feeds(self, n: int) -> dict[str, Array]:
        """Draw valid inputs from a seed."""
        rng = np.random.default_rng(1)
        operands = enumerate(self.operands)
        return {f"x{i}": x.array(rng, n) for i, x in operands if x is not None and not x.constant}

    def bytes(self, n: int) -> int:
        """Return the number of bytes of the inputs and outputs whose shapes are known."""
        graph = self.model(n).graph
        return sum(map(_size, [*graph.input, *graph.output]))

    def fitted(self, budget: int) -> int:
        """Return the largest n whose inputs and outputs fit into a budget in bytes; at least 1."""
        low, high = 1, 2
        while self.bytes(high) <= budget:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bytes(middle) <= budget else (low, middle)
        return low


def sizes(text: str, n: int) -> Shape:
    """Parse a text of sizes: products of numbers and n."""
    return tuple(
        math.prod(n if factor == "n" else int(factor) for factor in token.split("*"))
        for token in text.split()
    )


def _info(name: str, x: Operand, n: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _TYPES[x.element][0], sizes(x.shape, n))


def _size(value: onnx.ValueInfoProto) -> int:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return 0
    bits = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize * 8 if kind.elem_type else 32
    return math.prod(dim.dim_value for dim in kind.shape.dim) * bits // 8


# ** values **


def _normal(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def _integers(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.integers(1, 101, shape)


def _positive(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.uniform(0.5, 2.0, shape)


def _unit(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.uniform(-0.9, 0.9, shape)


def _scores(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.uniform(0.0, 1.0, shape)


def _bits(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.integers(0, 2, shape)


def _bytes(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.uniform(0.0, 255.0, shape)


def _zeros(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return np.zeros(shape)


def _sparse(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    """Return an array with half of its elements 0."""
    return rng.standard_normal(shape, np.float32) * rng.integers(0, 2, shape)


def _below(bound: str, rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return rng.integers(0, sizes(bound, n)[0], shape)


def _lengths(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    """Return lengths of sequences of 16."""
    return rng.integers(1, 17, shape)


def _permuted(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    """Return distinct positions along the first dimension."""
    order = rng.permutation(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return np.broadcast_to(order, shape)


def _fixed(values: str, rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return np.array(sizes(values, n)).reshape(shape)


def _boxes(extent: str, rng: np.random.Generator, shape: Shape, n: int) -> Array:
    """Return corners of boxes in an image of this extent, each up to a quarter of it in width and
    height."""
    size = sizes(extent, n)[0]
    low = rng.uniform(0, 0.75, (*shape[:-1], 2))
    return size * np.concatenate([low, low + rng.uniform(0.02, 0.25, low.shape)], -1)


def _unpooled(rng: np.random.Generator, shape: Shape, n: int) -> Array:
    """Return flat positions in [1, c, 2h, 2w] of the elements of [1, c, h, w], each in its
    window."""
    _, channels, height, width = shape
    c, y, x = np.ogrid[:channels, :height, :width]
    y, x = (2 * at + rng.integers(0, 2, shape[1:]) for at in (y, x))
    return ((c * 2 * height + y) * 2 * width + x).reshape(shape)


def _scalar(value: float, rng: np.random.Generator, shape: Shape, n: int) -> Array:
    return np.full(shape, value)


# ** rows **

IMAGE, ROWS = "1 32 n n", "n 256"


def x(shape: str = "n", element: str = "f32", draw: Draw | None = None) -> Operand:
    """An input."""
    return Operand(shape, element, draw)


def c(shape: str, element: str = "f32", draw: Draw | None = None) -> Operand:
    """A constant."""
    return Operand(shape, element, draw, constant=True)


def number(value: float, element: str = "f32") -> Operand:
    """A constant scalar."""
    return c("", element, partial(_scalar, value))


def ints(values: str) -> Operand:
    """A constant list of int64."""
    return c(str(len(values.split())), "i64", partial(_fixed, values))


def numbers(*values: float) -> Operand:
    """A constant list of f32."""
    return c(str(len(values)), "f32", lambda rng, shape, n: np.array(values))


def places(shape: str, bound: str) -> Operand:
    """An input of int64 below a bound."""
    return x(shape, "i64", partial(_below, bound))


def case(
    op: str,
    variant: str,
    *operands: Operand | None,
    outputs: int = 1,
    declared: Operand | None = None,
    domain: str = "",
    **settings: Any,
) -> OpCase:
    """A row of the table."""
    return OpCase(op, variant, operands, settings, outputs, declared, domain)


def _elementwise() -> list[OpCase]:
    plain = (
        *("Abs", "Neg", "Ceil", "Floor", "Round", "Exp", "Erf", "Sigmoid", "Tanh", "Relu"),
        *("LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Gelu"),
        *("Mish", "Sin", "Cos", "Tan", "Atan", "Sinh", "Sign", "IsNaN", "IsInf"),
    )
    pairs = ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Greater")
    f64, i32, i64, flags = (partial(x, "n", element) for element in ("f64", "i32", "i64", "bool"))
    return [
        *(case(op, "", x()) for op in plain),
        *(case(op, "", x(draw=_positive)) for op in ("Sqrt", "Log", "Reciprocal")),
        *(case(op, "", x(draw=_unit)) for op in ("Asin", "Acos")),
        *(case(op, "", x(), x()) for op in pairs),
        case("Div", "", x(), x(draw=_positive)),
        case("Pow", "", x(draw=_positive), x()),
        case("Pow", "scalar", x(draw=_positive), number(1.7)),
        case("Clip", "", x(), number(-0.5), number(0.5)),
        case("PRelu", "", x(IMAGE), c("32 1 1")),
        case("Where", "", flags(draw=_bits), x(), x()),
        case("Not", "", flags(draw=_bits)),
        case("And", "", flags(draw=_bits), flags(draw=_bits)),
        case("Add", "row", x(ROWS), x("256")),
        case("Add", "column", x(ROWS), x("n 1")),
        case("Add", "f16", x("n", "f16"), x("n", "f16")),
        case("Mod", "f32", x(), x(draw=_positive), fmod=1),
        case("Mod", "f64", f64(), f64(draw=_positive), fmod=1),
        case("Mod", "i32", i32(), i32()),
        case("Mod", "i64", i64(), i64()),
        case("Div", "i32", i32(), i32()),
        case("Div", "i64", i64(), i64()),
        case("Div", "i64 by a constant", i64(), number(7, "i64")),
        case("Add", "i64", i64(), i64()),
        case("Mul", "i32", i32(), i32()),
        case("BitwiseAnd", "i32", i32(), i32()),
        case("BitShift", "u32", x("n", "u32"), number(3, "u32"), direction="RIGHT"),
        *(case(op, "f64", f64()) for op in ("Exp", "Sin", "Erf", "Tanh")),
        *(case(op, "f64", f64(), f64()) for op in ("Add", "Mul")),
        case("Sqrt", "f64", f64(draw=_positive)),
        case("Pow", "f64", f64(draw=_positive), f64()),
    ]


def _reductions() -> list[OpCase]:
    along = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    volume = x("8 64 n")
    return [
        *(case(f"Reduce{kind}", "last", x(ROWS), ints("1")) for kind in along),
        *(case(f"Reduce{kind}", "first", x("256 n"), ints("0")) for kind in ("Sum", "Max")),
        case("ReduceSum", "first and last", volume, c("2", "i64", partial(_fixed, "0 2"))),
        case("ReduceSum", "middle", volume, ints("1")),
        case("ReduceSum", "all", x("64 n"), keepdims=0),
        case("ReduceMean", "image", x(IMAGE), ints("2 3")),
        case("ReduceSum", "f64 last", x(ROWS, "f64"), ints("1")),
        case("ReduceSum", "i64 last", x(ROWS, "i64"), ints("1")),
        case("ArgMax", "last", x(ROWS), axis=1),
        case("ArgMax", "first", x("256 n"), axis=0),
        case("ArgMin", "last", x(ROWS), axis=1),
    ]


def _norms() -> list[OpCase]:
    weights = (c("32", draw=_positive), c("32"))
    return [
        case("Softmax", "rows", x(ROWS), axis=-1),
        case("Softmax", "channels", x(IMAGE), axis=1),
        case("LogSoftmax", "rows", x(ROWS), axis=-1),
        case("Hardmax", "rows", x(ROWS), axis=-1),
        case("LayerNormalization", "", x(ROWS), c("256"), c("256")),
        case("InstanceNormalization", "", x(IMAGE), *weights),
        case("GroupNormalization", "", x(IMAGE), *weights, declared=x(IMAGE), num_groups=8),
        case("BatchNormalization", "", x(IMAGE), *weights, c("32"), c("32", draw=_positive)),
        case("MeanVarianceNormalization", "", x(IMAGE)),
        case("LpNormalization", "rows", x(ROWS), axis=-1, p=2),
        case("LRN", "", x(IMAGE), size=5),
    ]


def _pools() -> list[OpCase]:
    wide: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    halves: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    even = x("1 32 2*n 2*n")
    return [
        case("MaxPool", "2x2", even, **halves),
        case("MaxPool", "3x3", x(IMAGE), **wide),
        case("MaxPool", "2x2 indices", even, outputs=2, **halves),
        case("AveragePool", "3x3", x(IMAGE), kernel_shape=[3, 3], pads=[1] * 4),
        case("LpPool", "2x2", even, **halves),
        case("GlobalAveragePool", "", x(IMAGE)),
        case("GlobalMaxPool", "", x(IMAGE)),
        case("MaxUnpool", "2x2", x(IMAGE), x(IMAGE, "i64", _unpooled), **halves),
    ]


def _movement() -> list[OpCase]:
    wide = partial(case, "Pad", outputs=1)
    border = ints("0 0 2 2 0 0 2 2")
    image = x("1 32 4*n 4*n")
    return [
        case("Transpose", "10", x("n n"), perm=[1, 0]),
        case("Transpose", "0231", x(IMAGE), perm=[0, 2, 3, 1]),
        case("Transpose", "0213", x("1 n 16 64"), perm=[0, 2, 1, 3]),
        case("Concat", "first", x(ROWS), x(ROWS), axis=0),
        case("Concat", "last", x(ROWS), x(ROWS), axis=1),
        case("Split", "last", x(ROWS), ints("64 192"), outputs=2, axis=1),
        case("Slice", "columns", x(ROWS), ints("32"), ints("224"), ints("1")),
        case("Slice", "every second", x(ROWS), ints("0"), ints("256"), ints("1"), ints("2")),
        case(
            "Slice",
            "backward",
            x(ROWS),
            c("1", "i64", partial(_scalar, -1)),
            c("1", "i64", partial(_scalar, -1000)),
            ints("1"),
            c("1", "i64", partial(_scalar, -1)),
        ),
        wide("constant", image, border, mode="constant"),
        wide("reflect", image, border, mode="reflect"),
        wide("edge", image, border, mode="edge"),
        wide("wrap", image, border, mode="wrap"),
        case("Tile", "", x(ROWS), ints("2 2")),
        case("Expand", "rows", x("n 1"), ints("n 256")),
        case("Expand", "columns", x("1 n"), ints("64 n")),
        case("DepthToSpace", "", x(IMAGE), blocksize=2),
        case("SpaceToDepth", "", x("1 8 2*n 2*n"), blocksize=2),
        case(
            "ReverseSequence",
            "",
            x("n 16 64"),
            x("n", "i64", _lengths),
            time_axis=1,
            batch_axis=0,
        ),
        case("Trilu", "", x("n n")),
        case("Col2Im", "3x3", x("1 72 n*n"), ints("n n"), ints("3 3"), pads=[1] * 4),
    ]


def _indexed() -> list[OpCase]:
    rows, row = x("n 64"), x("n", "i64", _permuted)
    each, point = x("n 64", "i64", _permuted), x("n 1", "i64", _permuted)
    twice, updates = places("n 64", "n"), x("n 64")
    return [
        case("Gather", "rows", rows, row, axis=0),
        case("Gather", "columns", rows, places("32", "64"), axis=1),
        case("GatherElements", "", rows, each, axis=0),
        case("GatherND", "", rows, point),
        case("ScatterElements", "", rows, each, updates, axis=0),
        case("ScatterElements", "add", rows, twice, updates, axis=0, reduction="add"),
        case("ScatterElements", "max", rows, twice, updates, axis=0, reduction="max"),
        case("ScatterND", "", rows, point, updates),
        case("ScatterND", "add", rows, places("n 1", "n"), updates, reduction="add"),
        case("OneHot", "", places("n", "64"), number(64, "i64"), numbers(0.0, 1.0)),
        case("EyeLike", "", x("n n")),
        case(
            "Range",
            "",
            x("", "i64", _zeros),
            x("", "i64", partial(_fixed, "n")),
            x("", "i64", partial(_scalar, 1)),
            declared=Operand("n", "i64"),
        ),
    ]


def _resizes() -> list[OpCase]:
    up, down = numbers(1, 1, 2, 2), numbers(1, 1, 0.5, 0.5)
    even = x("1 32 2*n 2*n")
    floor: dict[str, Any] = {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    grid = x("1 n n 2", draw=_unit)
    rois = x("n 4", draw=partial(_boxes, "n")), x("n", "i64", _zeros)
    return [
        case("Resize", "nearest up", x(IMAGE), None, up, mode="nearest", **floor),
        case("Resize", "nearest half pixel", x(IMAGE), None, up, mode="nearest"),
        case("Resize", "nearest down", even, None, down, mode="nearest", **floor),
        case("Resize", "linear up", x(IMAGE), None, up, mode="linear"),
        case("Resize", "linear down", even, None, down, mode="linear"),
        case("Resize", "cubic up", x(IMAGE), None, up, mode="cubic"),
        case("GridSample", "linear", x(IMAGE), grid, mode="linear"),
        case("GridSample", "nearest", x(IMAGE), grid, mode="nearest"),
        case("GridSample", "border", x(IMAGE), grid, mode="linear", padding_mode="border"),
        case("RoiAlign", "", x(IMAGE), *rois, output_height=7, output_width=7),
    ]


_CASTS = (
    *(("f32", "i64"), ("f32", "i32"), ("f32", "u8"), ("f32", "i8"), ("f32", "bool")),
    *(("f32", "f16"), ("f32", "f64"), ("f16", "f32"), ("f64", "f32")),
    *(("u8", "f32"), ("i64", "f32"), ("i64", "i32"), ("i32", "i64"), ("bool", "f32")),
)


def _conversions() -> list[OpCase]:
    scale, zero, own = number(0.05), number(128, "u8"), c("32", draw=_positive)
    pair = (x("n", "u8"), scale, zero)
    drawn = {"u8": _bytes, "i8": _unit, "bool": _sparse}
    return [
        *(case("Cast", f"{a} {b}", x("n", a, drawn.get(b)), to=_TYPES[b][0]) for a, b in _CASTS),
        case("QuantizeLinear", "", x(), scale, zero),
        case("QuantizeLinear", "channels", x(IMAGE), own, c("32", "i8", _zeros), axis=1),
        case("DequantizeLinear", "", x("n", "u8"), scale, zero),
        case("DequantizeLinear", "channels", x(IMAGE, "i8"), own, c("32", "i8", _zeros), axis=1),
        case("DynamicQuantizeLinear", "", x(), outputs=3),
        *(
            case(
                op,
                "",
                *pair,
                *pair,
                number(0.1),
                zero,
                declared=Operand("n", "u8"),
                domain="com.microsoft",
            )
            for op in ("QLinearAdd",)
        ),
        case(
            "QLinearSigmoid",
            "",
            *pair,
            number(1 / 256),
            number(0, "u8"),
            declared=Operand("n", "u8"),
            domain="com.microsoft",
        ),
    ]


def _selections() -> list[OpCase]:
    few, boxes = ints("5"), x("1 n 4", draw=partial(_boxes, "1"))
    limits = number(100, "i64"), number(0.5), number(0.9)
    return [
        case("TopK", "5 of rows", x("n 1000"), few, outputs=2),
        case("TopK", "5 of columns", x("1000 n"), few, outputs=2, axis=0),
        case("TopK", "100 of all", x("1 100*n"), ints("100"), outputs=2),
        case("TopK", "sort rows", x(ROWS), ints("256"), outputs=2),
        case("NonMaxSuppression", "", boxes, x("1 16 n", draw=_scores), *limits),
        case("Unique", "i64", places("n", "n")),
        case("NonZero", "", x("n 64", draw=_sparse)),
        case("Compress", "rows", x("n 64"), x("n", "bool", _bits), axis=0),
        case("CumSum", "last", x(ROWS), number(1, "i64")),
        case("CumSum", "first", x("256 n"), number(0, "i64")),
        case("CumSum", "backward", x(ROWS), number(1, "i64"), reverse=1, exclusive=1),
        case("CumSum", "one row", x("n"), number(0, "i64")),
        case("CumSum", "i64", x(ROWS, "i64"), number(1, "i64")),
    ]


def _rows() -> list[OpCase]:
    families = (
        *(_elementwise, _reductions, _norms, _pools, _movement, _indexed, _resizes),
        *(_conversions, _selections),
    )
    return [row for family in families for row in family()]


OPS: Mapping[str, OpCase] = {row.name: row for row in _rows()}
"""The cases by name."""
