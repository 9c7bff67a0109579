"""Examples of all `nn` ops: operands by shape and element, and settings.

Tests that run each op draw its operands and settings from here. An elementwise op of the dialect's
table has an example without a row; any other op needs a row in `ROWS`. An op has several rows if
its settings select different code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.nn.core import NnOp, tensor, to_python
from tessella.dialects.nn.traits import DefinesSymbols, RunsFunction
from tessella.runtime.elements import DTYPES, converted, widened
from tessella.support.errors import ShapeError
from tests.native import Array, GraphBuilder, sample

T = "T"
"""The element that a test chooses."""

Shape = tuple[int, ...]
Settings = Mapping[str, Any]
Draw = Callable[[str, Shape, int], Array]
"""A function that draws an array of an element and a shape from a seed."""


@dataclass(frozen=True)
class Operand:
    """An operand of an example."""

    shape: Shape
    draw: Draw
    element: str = T

    def array(self, element: str, seed: int) -> Array:
        """Return values of the operand, where ``T`` stands for an element."""
        return self.draw(self.element_for(element), self.shape, seed)

    def element_for(self, element: str) -> str:
        """Return the operand's element, where ``T`` stands for an element."""
        return element if self.element == T else self.element


@dataclass(frozen=True)
class Example:
    """An op with operands and all of its settings."""

    op: type[NnOp]
    operands: Sequence[Operand]
    settings: Settings = field(default_factory=dict[str, Any])
    alone: str | None = None
    """The element of tests with a single element, unless the op takes f32, i64 or booleans and
    computes something then."""

    @property
    def element(self) -> str:
        """The element of tests with a single element."""
        return self.alone or next(filter(self.takes, ("f32", "i64", "bool")))

    @property
    def python_settings(self) -> Settings:
        """The settings as users give them: an element is a dtype."""
        return {
            name: to_python(value) if isinstance(value, Attribute) else value
            for name, value in self.settings.items()
        }

    def arrays(self, element: str | None = None) -> list[Array]:
        """Return values of the operands for an element, by default that of a single test."""
        return [x.array(element or self.element, i) for i, x in enumerate(self.operands)]

    def takes(self, element: str) -> bool:
        """Return whether the op is defined for an element."""
        types = [tensor(attribute_of(x.element_for(element)), x.shape) for x in self.operands]
        g = GraphBuilder(**{f"x{i}": type for i, type in enumerate(types)})
        try:
            self.op.make(list(g.inputs.values()), **self.settings)
        except ShapeError:
            return False
        return True


# ** operands **


def x(*shape: int) -> Operand:
    """An operand of any values: of floats N(0, 1), of integers the whole range."""
    return Operand(shape, _any)


def positive(*shape: int) -> Operand:
    """An operand of absolute values."""
    return Operand(shape, _positive)


def strange(*shape: int) -> Operand:
    """An operand with infinities and NaN."""
    return Operand(shape, _strange)


def fixed(values: float | Sequence[float] | Sequence[Sequence[float]], element: str = T) -> Operand:
    """An operand with these values."""
    array = np.asarray(values)
    return Operand(array.shape, lambda name, _, __: converted(array, DTYPES[name]), element)


def of(element: str, *shape: int) -> Operand:
    """An operand of any values of an element."""
    return Operand(shape, _any, element)


def index(*shape: int) -> Operand:
    """An operand of indices into dimensions of at least four elements, from the front."""
    return Operand(shape, lambda _, __, seed: _integers(0, 4, shape, seed), "i64")


def position(*shape: int) -> Operand:
    """An operand of indices into dimensions of at least four elements, from the front or back."""
    return Operand(shape, lambda _, __, seed: _integers(-4, 4, shape, seed), "i64")


def _any(element: str, shape: Shape, seed: int) -> Array:
    return sample(element, *shape, seed=seed)


def _positive(element: str, shape: Shape, seed: int) -> Array:
    array = _any(element, shape, seed)
    return converted(np.abs(widened(array)), array.dtype)


def _strange(element: str, shape: Shape, seed: int) -> Array:
    array = np.array(widened(_any(element, shape, seed)))
    for i, value in enumerate((np.nan, np.inf, -np.inf)):
        array.reshape(-1)[i::4] = value
    return converted(array, DTYPES[element])


def _integers(low: int, high: int, shape: Shape, seed: int) -> Array:
    return np.asarray(np.random.default_rng(seed).integers(low, high, shape))


# ** examples **

IMAGE = x(2, 4, 7, 9)
MATRIX = x(4, 37)
BATCH = x(2, 3, 4, 37)

WINDOW: Settings = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
STEPS: Settings = {"strides": (2, 1), "pads": (1, 0, 1, 1), "dilations": (1, 1)}
POOL: Settings = {**WINDOW, "kernel_shape": (2, 3), "ceil_mode": False}
STEPPED_POOL: Settings = {**POOL, "strides": (1, 2), "pads": (0, 1, 0, 1)}
ATTENTION: Settings = {
    "scale": 0.3, "transposed_k": False, "causal": False, "past": 0, "nan_as_zero": False,
}  # fmt: skip
RESIZE: Settings = {
    "sizes": (2, 4, 9, 11), "scales": (1.0, 1.0, 9 / 7, 11 / 9), "coordinates": "half_pixel",
    "nearest_mode": "floor",
}  # fmt: skip
TWICE: Settings = {**RESIZE, "sizes": (2, 4, 14, 18), "scales": (1.0, 1.0, 2.0, 2.0)}
REGIONS: Settings = {"sizes": (2, 3), "scale": 1.0, "samples": 2}
IMAGES_OF_REGIONS = fixed([0, 1, 0, 1, 0, 1, 0, 1], "i64")
AXES: Settings = {"axes": (1, 3), "keepdims": False}
CUMULATIVE: Settings = {"exclusive": False, "reverse": False}
DRAWS: Settings = {"shape": (2, 3), "to": attribute_of("f32"), "seed": 7}
SHARES = fixed([[0.1, 0.3, 0.5, 0.7, 0.9]] * 4, "f64")
NGRAMS: Settings = {"size": 3, "starts": (0, 1), "lengths": (1, 2), "skips": 1}
LINKS = fixed([1 << 2 | 1, 1 << 2, 2 << 2], "i64")
"""Links of a tree with a root and two leaves, which compares feature 1."""


def _arg(op: type[NnOp], *, keepdims: bool) -> Iterable[Example]:
    """Examples of the place of an element along the last dimension and along another one."""
    settings = {"keepdims": keepdims, "select_last_index": False}
    yield Example(op, [MATRIX], {**settings, "axis": 1})
    yield Example(op, [x(2, 3, 5, 4)], {**settings, "axis": 2, "keepdims": False})


ROWS: Sequence[Example] = (
    # elementwise ops with operands or settings that do not follow from the dialect's table
    *(Example(nn.OPS[name], [x(2, 4, 37)], alone="c64") for name in ("real", "imag", "conj")),
    *(Example(op, [strange(2, 4, 37)]) for op in (nn.IsNanOp, nn.IsInfOp)),
    Example(nn.CastOp, [MATRIX], {"to": attribute_of("f32")}, alone="i64"),
    Example(nn.CastOp, [MATRIX], {"to": attribute_of("i32")}),
    Example(nn.BitcastOp, [MATRIX], {"to": attribute_of("f32")}, alone="i32"),
    Example(nn.ClipOp, [MATRIX], {"low": 0.0, "high": 100.0}),
    Example(nn.ClipOp, [MATRIX], {"low": -0.5, "high": 0.75}),
    Example(nn.QuantizeOp, [MATRIX, positive(4, 37), of("u8", 4, 37)]),
    Example(nn.QuantizeOp, [x(2, 3, 5, 4), positive(4), of("u8")]),
    Example(nn.DequantizeOp, [MATRIX, of("f32", 4, 37), x(4, 37)], alone="i8"),
    Example(nn.DequantizeOp, [MATRIX, of("f32", 37), x()], alone="i8"),
    Example(nn.WhereOp, [of("bool", 4, 37), MATRIX, MATRIX]),
    Example(nn.WhereOp, [of("bool", 4, 1), MATRIX, x(37)]),
    # products and windows
    Example(nn.MatmulOp, [x(5, 37), x(37, 6)], {"transpose_b": False}),
    Example(nn.MatmulOp, [x(2, 5, 37), x(2, 6, 37)], {"transpose_b": True}),
    Example(nn.FcOp, [x(5, 37), x(37, 6), x(6)], {"transpose_w": False}),
    Example(
        nn.PackedMatmulOp,
        [x(5, 48), of("i32", 9, 2, 3, 1), x(9, 2)],
        {"bits": 4, "table": ()},
    ),
    Example(nn.GroupedMatmulOp, [x(11, 6), x(4, 6, 37), fixed([3, 3, 2, 9], "i64")]),
    Example(nn.GroupedMatmulOp, [x(37, 5), x(2, 5, 6), fixed([-1, 50], "i32")]),
    Example(nn.GroupedOuterOp, [x(11, 6), x(11, 37), fixed([3, 3, 2, 9], "i64")]),
    Example(nn.AttentionOp, [x(2, 3, 5, 8), x(2, 3, 7, 8), x(2, 3, 7, 4)], ATTENTION),
    Example(nn.ConvOp, [IMAGE, x(8, 4, 3, 3)], {**WINDOW, "groups": 1}),
    Example(nn.ConvOp, [x(2, 3, 5, 4), x(6, 3, 3, 2), x(6)], {**STEPS, "groups": 1}),
    Example(
        nn.ConvTransposeOp,
        [IMAGE, x(4, 8, 3, 3)],
        {**WINDOW, "groups": 1, "output_pads": (0, 0)},
    ),
    Example(
        nn.ConvTransposeOp,
        [x(2, 3, 5, 4), x(3, 6, 3, 2)],
        {**STEPS, "groups": 1, "output_pads": (1, 0)},
    ),
    Example(nn.MaxPoolOp, [IMAGE], POOL),
    Example(nn.MaxPoolOp, [IMAGE], STEPPED_POOL),
    Example(nn.AvgPoolOp, [IMAGE], {**POOL, "count_include_pad": False}),
    Example(nn.AvgPoolOp, [IMAGE], {**STEPPED_POOL, "count_include_pad": True}),
    Example(
        nn.Col2imOp,
        [x(1, 4, 2, 3, 7, 9)],
        {"image": (8, 10), "strides": (1, 1), "dilations": (1, 1), "starts": (0, 1)},
    ),
    Example(
        nn.Col2imOp,
        [x(1, 2, 3, 2, 4, 5)],
        {"image": (7, 9), "strides": (2, 2), "dilations": (1, 2), "starts": (1, 0)},
    ),
    # reductions along dimensions
    *(
        Example(op, [x(2, 3, 4, 37)], AXES)
        for op in (nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp, nn.ReduceMinOp)
    ),
    Example(nn.ReduceProdOp, [x(4, 2, 5, 3)], AXES),
    *_arg(nn.ArgMaxOp, keepdims=True),
    *_arg(nn.ArgMinOp, keepdims=False),
    Example(nn.SoftmaxOp, [BATCH], {"axis": 3}),
    Example(nn.LogSoftmaxOp, [BATCH], {"axis": 3}),
    Example(nn.CumsumOp, [MATRIX], {**CUMULATIVE, "axis": 1}),
    Example(nn.CumsumOp, [x(2, 3, 5, 4)], {"axis": 2, "exclusive": True, "reverse": False}),
    Example(nn.CumprodOp, [x(4, 3)], {"axis": 1, "exclusive": False, "reverse": True}),
    Example(nn.CumprodOp, [x(2, 3, 5, 4)], {"axis": 2, "exclusive": False, "reverse": True}),
    Example(nn.CummaxOp, [BATCH], {"axis": 1, "exclusive": True, "reverse": True}),
    Example(nn.CummaxOp, [MATRIX], {"axis": 0, "exclusive": True, "reverse": False}),
    Example(nn.CumminOp, [BATCH], {**CUMULATIVE, "axis": 3}),
    Example(nn.TopkOp, [MATRIX], {"k": 3, "axis": 1, "largest": True}),
    Example(nn.TopkOp, [x(2, 3, 5, 4)], {"k": 2, "axis": 2, "largest": True}),
    # boxes, regions and trees
    Example(
        nn.NonMaxSuppressionOp,
        [positive(2, 9, 4), x(2, 3, 9), fixed(4, "i64"), fixed(0.1)],
        {"room": 5, "centered": True},
    ),
    Example(
        nn.NonMaxSuppressionOp,
        [x(2, 9, 4), x(2, 3, 9), index(), x()],
        {"room": 5, "centered": True},
    ),
    Example(
        nn.RoiAlignOp,
        [IMAGE, x(8, 4), IMAGES_OF_REGIONS],
        {**REGIONS, "mode": "avg", "half_pixel": True},
    ),
    Example(
        nn.RoiAlignOp,
        [IMAGE, positive(8, 4), IMAGES_OF_REGIONS],
        {**REGIONS, "scale": 2.0, "mode": "max", "half_pixel": False},
    ),
    Example(nn.MaxRoiPoolOp, [IMAGE, x(8, 4), IMAGES_OF_REGIONS], {"sizes": (2, 3), "scale": 2.0}),
    Example(
        nn.MaxRoiPoolOp,
        [IMAGE, positive(8, 4), IMAGES_OF_REGIONS],
        {"sizes": (2, 3), "scale": 2.0},
    ),
    Example(
        nn.TreeEnsembleOp,
        [MATRIX, x(9), index(9), x(9, 3)],
        {"trees": 4, "levels": 3, "bits": 1, "aggregate": "max"},
    ),
    Example(
        nn.TreeEnsembleOp,
        [x(9, 3), fixed([0, np.nan, np.nan]), LINKS, x(3, 2)],
        {"trees": 1, "levels": 1, "bits": 2, "aggregate": "sum"},
    ),
    # normalizations
    Example(nn.LayerNormOp, [BATCH, x(37), x(37)], {"axis": 3, "epsilon": 1e-3}),
    Example(nn.RmsNormOp, [MATRIX, x(37)], {"axis": 1, "epsilon": 1e-3}),
    Example(nn.RmsNormOp, [x(2, 3, 5, 4), x(5, 4)], {"axis": 2, "epsilon": 0.1}),
    Example(nn.GroupNormOp, [IMAGE, x(4), x(4)], {"groups": 2, "epsilon": 1e-3}),
    Example(nn.BatchNormOp, [IMAGE, x(4), x(4), x(4), positive(4)], {"epsilon": 1e-3}),
    Example(nn.LrnOp, [IMAGE], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
    # ops that move elements
    Example(nn.ReshapeOp, [x(2, 4, 37)], {"shape": (37, 8)}),
    Example(nn.ReshapeOp, [MATRIX], {"shape": (4, 1, 37)}),
    Example(nn.TransposeOp, [MATRIX], {"perm": (1, 0)}),
    Example(nn.TransposeOp, [x(2, 3, 5, 4)], {"perm": (0, 2, 3, 1)}),
    Example(nn.ChannelShuffleOp, [x(2, 6, 5, 7)], {"groups": 2}),
    Example(nn.SliceOp, [MATRIX], {"starts": (1, 30), "sizes": (2, 9), "steps": (1, -3)}),
    Example(
        nn.SliceOp,
        [x(2, 3, 5, 4)],
        {"starts": (0, 2, 4, 0), "sizes": (1, 2, 3, 2), "steps": (1, -1, -1, 2)},
    ),
    Example(
        nn.PadOp,
        [BATCH],
        {"low": (0, 1, 0, 2), "high": (1, 0, 0, 3), "mode": "constant", "value": 1.5},
    ),
    Example(nn.ConcatOp, [x(3, 2, 37), x(3, 1, 37), x(3, 4, 37)], {"axis": 1}),
    Example(nn.ExpandOp, [x(1, 37)], {"shape": (4, 37)}),
    Example(nn.ExpandOp, [x(3, 1)], {"shape": (2, 3, 5)}),
    Example(nn.TileOp, [x(4, 3, 37)], {"repeats": (2, 1, 3)}),
    Example(nn.ResizeOp, [IMAGE], {**RESIZE, "mode": "nearest"}),
    Example(nn.ResizeOp, [IMAGE], {**RESIZE, "mode": "linear"}),
    Example(nn.ResizeOp, [IMAGE], {**TWICE, "mode": "linear"}),
    Example(nn.GatherOp, [x(3, 4, 37), position(2, 2)], {"axis": 1}),
    Example(nn.GatherElementsOp, [MATRIX, position(2, 37)], {"axis": 0}),
    Example(nn.GatherNdOp, [x(4, 5, 37), position(3, 2)], {"batch_dims": 0}),
    Example(
        nn.ScatterElementsOp,
        [MATRIX, position(9, 37), x(9, 37)],
        {"axis": 0, "reduction": "none"},
    ),
    Example(nn.ScatterNdOp, [MATRIX, position(3, 1), x(3, 37)], {"reduction": "max"}),
    Example(nn.ScatterNdOp, [MATRIX, fixed([[0], [2]], "i64"), x(2, 37)], {"reduction": "add"}),
    # strings
    Example(nn.StringConcatOp, [MATRIX, x(37)], alone="string"),
    Example(nn.StringMatchOp, [MATRIX], {"pattern": "[a-z ]*"}, alone="string"),
    Example(nn.StringFindOp, [MATRIX, x(3)], alone="string"),
    Example(nn.CountNgramsOp, [x(4, 37), x(5), fixed([2, 0, 1], "i64")], NGRAMS, alone="string"),
    Example(nn.ChooseClassesOp, [x(4, 37), SHARES]),
    # ops without operands
    Example(nn.IotaOp, [], {"count": 5}),
    Example(nn.RandomNormalOp, [], {**DRAWS, "mean": 1.5, "scale": 0.5}),
    Example(nn.RandomUniformOp, [], {**DRAWS, "low": -1.0, "high": 3.0}),
    Example(nn.SizesOp, [], {"values": (7,)}),
)


def _elementwise(op: type[NnOp]) -> Example:
    """Return the example of a row of the dialect's table of elementwise ops: the second operand is
    broadcast."""
    others = op.get_irdl_definition().operands[1:]
    shapes = [(2, 4, 37), *[(4, 37) for _ in others]]
    settings = {name: 0.75 / (1 + i) for i, name in enumerate(op.setting_defs())}
    return Example(op, [x(*shape) for shape in shapes], settings)


def _examples() -> Mapping[type[NnOp], Sequence[Example]]:
    found: dict[type[NnOp], list[Example]] = {}
    for row in ROWS:
        found.setdefault(row.op, []).append(row)
    for op in nn.OPS.values():
        found.setdefault(op, [_elementwise(op)])
    return dict(sorted(found.items(), key=lambda item: item[0].name))


EXAMPLES: Mapping[type[NnOp], Sequence[Example]] = _examples()
"""The examples of each op, by the names of the ops."""

COMPUTING: Mapping[str, Example] = {
    op.name.removeprefix("nn.") + (f"-{i}" if i else ""): example
    for op, examples in EXAMPLES.items()
    for i, example in enumerate(examples)
    if example.operands
}
"""The examples of all ops that compute with elements, with names for the ids of tests."""


def needs_example(op: type[Any]) -> bool:
    """Return whether a class of the dialect is an op that can run by itself, on arrays."""
    return (
        issubclass(op, NnOp)
        and not issubclass(op, nn.ConstantOp)
        and not op.has_trait(RunsFunction)
        and not op.has_trait(DefinesSymbols)
    )
