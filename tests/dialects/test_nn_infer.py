"""Types inferred by `nn` ops, also from hostile settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import StringAttr, TensorType, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import nn
from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn.core import (
    NnOp,
    broadcast_shapes,
    dtype_of,
    element_type,
    normalise_axis,
    shape_of,
    tensor,
    tensor_type,
    to_attribute,
    to_python,
    type_of,
)
from tessella.dialects.nn.evaluate import constant_value
from tessella.dialects.nn.indexing import REDUCTIONS
from tessella.dialects.nn.movement import COORDINATES, NEAREST_MODES, PAD_MODES, RESIZE_MODES
from tessella.dialects.place import PlaceAttr, place_of, placed
from tessella.runtime.host import KERNELS
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InternalError, ShapeError
from tests.sampling import sampled

OPS: dict[str, type[NnOp]] = {op.name: op for op in nn.Nn.operations if issubclass(op, NnOp)}
COMPUTED = {k: op for k, op in OPS.items() if not issubclass(op, nn.ConstantOp)}
Shape = tuple[int, ...]


def operands(*types: tuple[Attribute, Shape]) -> list[SSAValue]:
    """Values of these element types and shapes."""
    return list(Block(arg_types=[TensorType(e, shape) for e, shape in types]).args)


def floats(*shapes: Shape) -> list[SSAValue]:
    """Values of type f32 and these shapes."""
    return operands(*((f32, shape) for shape in shapes))


def grouped(*factors: Shape) -> list[SSAValue]:
    """Operands of a product of two groups of rows."""
    return operands(*((f32, shape) for shape in factors), (i64, (2,)))


PACKED: dict[str, Any] = {"bits": 4, "table": ()}


def packed(
    columns: int,
    x: Attribute = f32,
    scale: tuple[int, ...] = (9, 2),
    steps: tuple[int, ...] | None = None,
) -> list[SSAValue]:
    """Operands of a product with packed integers."""
    more = [] if steps is None else [(f32, steps)]
    return operands((x, (5, columns)), (i32, (9, 2, 3, 1)), (f32, scale), *more)


def boxes(count: int, most: Attribute = i64) -> list[SSAValue]:
    """Return ``count`` boxes, eight scores of each of two classes, and numbers."""
    return operands((f32, (3, count, 4)), (f32, (3, 2, 8)), (most, ()), (f32, ()))


REGIONS: dict[str, Any] = {
    "sizes": (2, 3),
    "scale": 1.0,
    "samples": 2,
    "mode": "avg",
    "half_pixel": True,
}


def regions(element: Attribute) -> list[SSAValue]:
    """Images, regions, and their images as elements of a type."""
    return operands((f32, (1, 2, 5, 5)), (f32, (4, 4)), (element, (4,)))


def test_every_op_has_a_numpy_kernel_and_no_more() -> None:
    # what runs a function of the program is not a function of arrays
    assert set(COMPUTED) == {*KERNELS, "nn.scan"}


def test_ops_are_sorted_and_unique() -> None:
    names = [op.name for op in nn.Nn.operations]
    assert names == sorted(set(names))
    assert {"nn.conv", "nn.weight", "nn.fused", "nn.yield"} <= set(names)


POOL: dict[str, Any] = {
    "kernel_shape": (2,), "strides": (1,), "pads": (0, 0), "dilations": (1,), "ceil_mode": False,
}  # fmt: skip
ATTENTION: dict[str, Any] = {
    "scale": 1.0,
    "transposed_k": False,
    "causal": False,
    "past": 0,
    "nan_as_zero": False,
}
CONV: dict[str, Any] = {"strides": (1,), "pads": (0, 0), "dilations": (1,), "groups": 1}
RESIZE: dict[str, Any] = {
    "sizes": (6,), "scales": (2.0,), "mode": "nearest", "coordinates": "half_pixel",
    "nearest_mode": "floor",
}  # fmt: skip

MALFORMED: list[tuple[str, type[NnOp], list[SSAValue], dict[str, Any]]] = [
    ("do not broadcast", nn.AddOp, floats((2, 3), (2,)), {}),
    ("types differ", nn.AddOp, operands((f32, (2,)), (f64, (2,))), {}),
    ("takes numbers", nn.AddOp, operands((i1, (2,)), (i1, (2,))), {}),
    ("takes numbers", nn.NegOp, operands((i1, (2,))), {}),
    ("takes booleans", nn.AndOp, floats((2,), (2,)), {}),
    ("takes booleans", nn.NotOp, floats((2,)), {}),
    ("boolean condition", nn.WhereOp, floats((2,), (2,), (2,)), {}),
    ("floating-point", nn.ExpOp, operands((i32, (2,))), {}),
    ("no tensor is made of", nn.CastOp, floats((2,)), {"to": StringAttr("x")}),
    ("differ in their bits", nn.BitcastOp, floats((2,)), {"to": f64}),
    ("an element type", nn.CastOp, floats((2,)), {"to": TensorType(f32, [2])}),
    ("inner sizes differ", nn.MatmulOp, floats((2, 3), (2, 3)), {"transpose_b": False}),
    ("takes matrices", nn.MatmulOp, floats((3,), (3, 2)), {"transpose_b": False}),
    ("inner sizes differ", nn.GroupedMatmulOp, grouped((5, 3), (2, 4, 6)), {}),
    ("numbers of matrices and groups", nn.GroupedMatmulOp, grouped((5, 3), (3, 3, 6)), {}),
    ("ends of one group or more", nn.GroupedMatmulOp, grouped((5, 3), (3, 6)), {}),
    ("numbers of rows differ", nn.GroupedOuterOp, grouped((5, 3), (4, 6)), {}),
    ("do not broadcast", nn.MatmulOp, floats((2, 1, 1), (3, 1, 1)), {"transpose_b": False}),
    ("sizes differ", nn.FcOp, floats((2, 3), (3, 4), (3,)), {"transpose_w": False}),
    ("takes x", nn.FcOp, floats((), (3, 4), (3,)), {"transpose_w": False}),
    ("do not divide", nn.PackedMatmulOp, packed(48), {**PACKED, "bits": 5}),
    ("inner sizes differ", nn.PackedMatmulOp, packed(40), PACKED),
    ("scale.N, blocks.", nn.PackedMatmulOp, packed(48, scale=(9, 3)), PACKED),
    ("steps of each row", nn.PackedMatmulOp, packed(48, x=i32, steps=(5, 3)), PACKED),
    ("element types differ", nn.PackedMatmulOp, packed(48, x=i64, steps=(5, 2)), PACKED),
    ("table does not fit", nn.PackedMatmulOp, packed(48), {**PACKED, "table": (0.5, 1.0)}),
    ("rank is too small", nn.AttentionOp, floats((4,), (7, 4), (7, 4)), ATTENTION),
    ("inner sizes differ", nn.AttentionOp, floats((5, 4), (4, 7), (7, 4)), ATTENTION),
    ("v does not have a row", nn.AttentionOp, floats((5, 4), (7, 4), (6, 4)), ATTENTION),
    ("dimensions of v", nn.AttentionOp, floats((5, 4), (7, 4), (2, 7, 4)), ATTENTION),
    ("dimensions of mask", nn.AttentionOp, floats((5, 4), (7, 4), (7, 4), (2, 5, 7)), ATTENTION),
    ("do not broadcast", nn.AttentionOp, floats((5, 4), (7, 4), (7, 4), (5, 6)), ATTENTION),
    ("takes floating-point", nn.AttentionOp, operands(*[(i32, (4, 4))] * 3), ATTENTION),
    ("ranks differ", nn.ConvOp, floats((1, 2, 5), (2, 2)), CONV),
    ("do not fit", nn.ConvOp, floats((1, 2, 5), (2, 3, 3)), CONV),
    ("do not fit", nn.ConvOp, floats((1, 2, 5), (2, 2, 3)), CONV | {"groups": 0}),
    ("the bias does not fit", nn.ConvOp, floats((1, 2, 5), (2, 2, 3), (3,)), CONV),
    ("wrong length", nn.ConvOp, floats((1, 2, 5), (2, 2, 3)), CONV | {"pads": (0,)}),
    ("malformed", nn.ConvOp, floats((1, 2, 5), (2, 2, 3)), CONV | {"strides": (0,)}),
    ("malformed", nn.ConvOp, floats((1, 2, 5), (2, 2, 3)), CONV | {"pads": (-1, 0)}),
    ("larger than the padded", nn.ConvOp, floats((1, 2, 5), (2, 2, 6)), CONV),
    ("malformed", nn.ConvTransposeOp, floats((1, 2, 0), (2, 2, 3)), CONV | {"output_pads": (0,)}),
    ("do not fit", nn.ConvTransposeOp, floats((1, 2, 5), (3, 2, 3)), CONV | {"output_pads": (0,)}),
    (
        "larger than",
        nn.ConvTransposeOp,
        floats((1, 2, 1), (2, 2, 1)),
        CONV | {"output_pads": (0,), "pads": (1, 1)},
    ),
    ("rank is too small", nn.MaxPoolOp, floats((1, 2)), POOL),
    ("wrong length", nn.MaxPoolOp, floats((1, 2, 5, 5)), POOL),
    ("takes numbers", nn.MaxPoolOp, operands((i1, (1, 2, 5))), POOL),
    ("floating-point", nn.AvgPoolOp, operands((i8, (1, 2, 5))), POOL | {"count_include_pad": True}),
    ("larger than the padded", nn.MaxPoolOp, floats((1, 2, 1)), POOL),
    ("out of range", nn.ReduceSumOp, floats((2, 3)), {"axes": (2,), "keepdims": True}),
    ("out of range", nn.ReduceSumOp, floats((2, 3)), {"axes": (-1,), "keepdims": True}),
    ("given twice", nn.ReduceSumOp, floats((2, 3)), {"axes": (1, 1), "keepdims": True}),
    ("takes numbers", nn.ReduceSumOp, operands((i1, (2,))), {"axes": (0,), "keepdims": True}),
    (
        "no elements along",
        nn.ArgMaxOp,
        floats((2, 0)),
        {"axis": 1, "keepdims": True, "select_last_index": False},
    ),
    ("out of range", nn.SoftmaxOp, floats(()), {"axis": 0}),
    ("k is out of range", nn.TopkOp, floats((2, 3)), {"k": 4, "axis": 1, "largest": True}),
    ("k is out of range", nn.TopkOp, floats((2, 3)), {"k": -1, "axis": 1, "largest": True}),
    ("do not fit together", nn.NonMaxSuppressionOp, boxes(9), {"room": 1, "centered": False}),
    ("room is out of range", nn.NonMaxSuppressionOp, boxes(8), {"room": 9, "centered": False}),
    ("most is an i64", nn.NonMaxSuppressionOp, boxes(8, i32), {"room": 1, "centered": False}),
    ("has the wrong length", nn.RoiAlignOp, regions(i64), REGIONS | {"sizes": (2,)}),
    ("unknown mode", nn.RoiAlignOp, regions(i64), REGIONS | {"mode": "sum"}),
    ("batches list i64", nn.RoiAlignOp, regions(i32), REGIONS),
    ("batches list i64", nn.MaxRoiPoolOp, regions(i32), {"sizes": (2, 2), "scale": 1.0}),
    ("sizes", nn.MaxRoiPoolOp, regions(i64), {"sizes": (2, 0), "scale": 1.0}),
    ("does not broadcast", nn.LayerNormOp, floats((2, 1), (3,)), {"axis": 1, "epsilon": 0.0}),
    ("out of range", nn.RmsNormOp, floats((2, 3), (3,)), {"axis": 2, "epsilon": 0.0}),
    ("wrong shape", nn.GroupNormOp, floats((2, 3, 4), (4,), (3,)), {"epsilon": 0.0, "groups": 3}),
    ("rank is too", nn.GroupNormOp, floats((2, 3), (3,), (3,)), {"epsilon": 0.0, "groups": 3}),
    ("a multiple", nn.GroupNormOp, floats((2, 3, 4), (3,), (3,)), {"epsilon": 0.0, "groups": 2}),
    ("out of range", nn.GroupNormOp, floats((2, 3, 4), (3,), (3,)), {"epsilon": 0.0, "groups": 0}),
    ("wrong shape", nn.BatchNormOp, floats((2, 3), (3,), (3,), (3,), (2,)), {"epsilon": 0.0}),
    (
        "size is out of range",
        nn.LrnOp,
        floats((2, 3, 4)),
        {"size": 0, "alpha": 1.0, "beta": 1.0, "bias": 1.0},
    ),
    ("number of elements", nn.ReshapeOp, floats((2, 3)), {"shape": (7,)}),
    ("shape is out of range", nn.ReshapeOp, floats((2, 3)), {"shape": (-2, -3)}),
    ("wrong length", nn.TransposeOp, floats((2, 3)), {"perm": (0,)}),
    ("given twice", nn.TransposeOp, floats((2, 3)), {"perm": (0, 0)}),
    ("not a multiple of groups", nn.ChannelShuffleOp, floats((1, 6)), {"groups": 4}),
    ("groups is out of range", nn.ChannelShuffleOp, floats((1, 6)), {"groups": 0}),
    ("axis 0 is zero", nn.SliceOp, floats((4,)), {"starts": (0,), "sizes": (1,), "steps": (0,)}),
    ("leaves x", nn.SliceOp, floats((4,)), {"starts": (1,), "sizes": (2,), "steps": (3,)}),
    ("leaves x", nn.SliceOp, floats((4,)), {"starts": (1,), "sizes": (3,), "steps": (-1,)}),
    ("leaves x", nn.SliceOp, floats((4,)), {"starts": (-1,), "sizes": (1,), "steps": (1,)}),
    (
        "low is out of range",
        nn.PadOp,
        floats((4,)),
        {"low": (-1,), "high": (0,), "mode": "constant", "value": 0.0},
    ),
    (
        "unknown mode",
        nn.PadOp,
        floats((4,)),
        {"low": (1,), "high": (0,), "mode": "mirror", "value": 0.0},
    ),
    (
        "nothing to pad with",
        nn.PadOp,
        floats((0,)),
        {"low": (1,), "high": (0,), "mode": "edge", "value": 0.0},
    ),
    (
        "cannot be NaN",
        nn.PadOp,
        operands((i8, (4,))),
        {"low": (1,), "high": (0,), "mode": "constant", "value": math.nan},
    ),
    ("no operands", nn.ConcatOp, [], {"axis": 0}),
    ("more than axis 0", nn.ConcatOp, floats((2, 3), (2, 4)), {"axis": 0}),
    ("more than axis 0", nn.ConcatOp, floats((2, 3), (2,)), {"axis": 0}),
    ("does not broadcast to", nn.ExpandOp, floats((2, 3)), {"shape": (3,)}),
    ("repeats has the wrong length", nn.TileOp, floats((2, 3)), {"repeats": (1,)}),
    ("indices of type", nn.GatherOp, floats((2,), (2,)), {"axis": 0}),
    ("ranks differ", nn.GatherElementsOp, operands((f32, (2,)), (i64, (2, 2))), {"axis": 0}),
    ("exceed data", nn.GatherElementsOp, operands((f32, (2, 2)), (i64, (3, 2))), {"axis": 1}),
    ("batches differ", nn.GatherNdOp, operands((f32, (2, 2)), (i64, (3, 1))), {"batch_dims": 1}),
    ("batch_dims is out", nn.GatherNdOp, operands((f32, (2, 2)), (i64, (2,))), {"batch_dims": 1}),
    ("wrong length", nn.GatherNdOp, operands((f32, (2, 2)), (i64, (2, 3))), {"batch_dims": 0}),
    (
        "unknown reduction",
        nn.ScatterElementsOp,
        operands((f32, (2,)), (i64, (2,)), (f32, (2,))),
        {"axis": 0, "reduction": "sum"},
    ),
    (
        "wrong shape",
        nn.ScatterNdOp,
        operands((f32, (2, 3)), (i64, (4, 1)), (f32, (4, 2))),
        {"reduction": "none"},
    ),
    ("scale is not positive", nn.ResizeOp, floats((3,)), RESIZE | {"scales": (0.0,)}),
    ("nothing to read from", nn.ResizeOp, floats((0,)), RESIZE),
    ("unknown coordinates", nn.ResizeOp, floats((3,)), RESIZE | {"coordinates": "tf"}),
    ("floating-point", nn.ResizeOp, operands((i8, (3,))), RESIZE | {"mode": "linear"}),
    ("too large", nn.ExpandOp, floats((1,)), {"shape": (2**40, 2**40)}),
    ("impossible shape", nn.ReshapeOp, floats((1,)), {"shape": (1,) * 65}),
    ("fit into 64 bits", nn.TileOp, floats((1,)), {"repeats": (2**63,)}),
]  # fmt: skip


@pytest.mark.parametrize("message, op, values, properties", MALFORMED)
def test_malformed(
    message: str, op: type[NnOp], values: list[SSAValue], properties: dict[str, Any]
) -> None:
    with pytest.raises(ShapeError, match=message):
        op.make(values, **properties)
    assert all(not value.uses for value in values)


INTS = st.sampled_from([0, 1, 1, 2, 3, 4, -1, -2, 7, 2**31, 2**62, 2**63 - 1, -(2**63)])
SIZES = st.sampled_from([0, 1, 1, 2, 2, 3, 4, 2**40])
WORDS: dict[str, tuple[str, ...]] = {
    "reduction": REDUCTIONS,
    "mode": (*PAD_MODES, *RESIZE_MODES),
    "coordinates": COORDINATES,
    "nearest_mode": NEAREST_MODES,
}
ALL_WORDS = ("", *(word for words in WORDS.values() for word in words))
FLOATS = st.sampled_from([0.0, 1.0, 0.5, -2.0, math.inf, -math.inf, math.nan, 1e300])
DTYPES = ("float32", "float64", "bool", "int8", "uint8", "int32", "int64")


@st.composite
def cases(draw: st.DrawFn, op: type[NnOp]) -> tuple[list[SSAValue], dict[str, Any]]:
    """Operands, which are splats, and properties for an op: some that may fit, some that do not."""
    definition = op.get_irdl_definition()
    tame = draw(st.booleans())
    sizes = st.lists(st.sampled_from([1, 2, 3]), min_size=3, max_size=4)
    shapes = sizes if tame else st.lists(SIZES, max_size=4)
    first, values = draw(shapes), list[SSAValue]()
    dtype = draw(st.sampled_from(DTYPES))
    for name, kind in definition.operands:
        most = 1 if isinstance(kind, OptOperandDef) else 3
        for _ in range(draw(st.integers(0, most)) if isinstance(kind, VarOperandDef) else 1):
            shape = draw(st.one_of(st.just(first), st.just(first[1:2]), shapes))
            other = "int64" if name == "indices" else "bool" if name == "condition" else dtype
            chosen = draw(st.sampled_from([other, other, other, draw(st.sampled_from(DTYPES))]))
            assume(math.prod(size or 1 for size in shape) < 2**59)
            type = tensor(element_type(chosen), shape)
            values.append(nn.SplatOp(draw(st.sampled_from([1, 1, 0])), type).res)
    properties: dict[str, Any] = {}
    for name, kind in op.setting_defs().items():
        length = len(first) - 2 if name in WINDOW else len(first)
        length = 2 * length - 4 if name == "pads" else length
        length = max(0, length) if tame else draw(st.integers(0, 5))
        properties[name] = draw(_property(name, length, str(kind.constr), tame))
    return values, properties


WINDOW = ("kernel_shape", "strides", "dilations", "output_pads")


def _property(name: str, length: int, constraint: str, tame: bool) -> st.SearchStrategy[Any]:
    ints = st.sampled_from([0, 1, 1, 2]) if tame else INTS
    numbers = st.sampled_from([0.5, 1.0, 2.0]) if tame else FLOATS
    if name == "sums":
        return st.sampled_from([None, *DTYPES]).map(
            lambda x: None if x is None else element_type(x)
        )
    if name == "to":
        return st.sampled_from(DTYPES).map(element_type)
    if name == "scales":
        return st.lists(numbers, min_size=length, max_size=length).map(tuple)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "DenseArrayBase": st.lists(ints, min_size=length, max_size=length).map(tuple),
        "StringAttr": st.sampled_from(WORDS.get(name, ALL_WORDS) if tame else ALL_WORDS),
        "FloatAttr": numbers,
        "IntegerType(1)": st.booleans(),
        "IntegerType(64)": ints,
    }
    return next(strategy for kind, strategy in kinds.items() if kind in constraint)


@pytest.mark.sweep
@pytest.mark.parametrize("op", [op for op in COMPUTED.values() if op is not nn.ScanOp])
@given(st.data())
@settings(max_examples=sampled(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_hostile(op: type[NnOp], data: st.DataObject) -> None:
    values, properties = data.draw(cases(op))
    try:
        made = op.make(values, **properties)
    except ShapeError:
        return
    made.verify()
    for result in made.results:
        array = constant_value(result, WeightStore(), limit=1 << 18)
        if array is not None:
            assert type_of(array) == result.type


def test_places_are_kept_by_inference_and_ignored_by_it() -> None:
    place = PlaceAttr.get("x86", "f32", NHWC)
    (x,) = operands((f32, (1, 2, 3)))
    op = nn.ReluOp.make([placed_value(x, place)])
    assert op.res.type == tensor(f32, (1, 2, 3))
    Rewriter.replace_value_with_new_type(op.res, placed(tensor(f32, (1, 2, 3)), place))
    op.infer_types()
    op.verify()
    assert place_of(op.res.type) == place


def placed_value(value: SSAValue, place: PlaceAttr) -> SSAValue:
    """A value of the same type at a place."""
    return Block(arg_types=[placed(tensor_type(value), place)]).args[0]


def test_picked_places_are_verified() -> None:
    nchw, nhwc = PlaceAttr.get("x86", "f32", NCHW), PlaceAttr.get("x86", "f32", NHWC)
    (x,) = floats((1, 2, 3))
    op = nn.ReluOp.make([placed_value(x, nchw)], node="relu1")
    op.pick("x86.relu", [nchw, nchw])
    with pytest.raises(VerifyException, match=r"result 0.*wants x86/f32/nchw, found no place"):
        op.verify()
    op.place_results([nchw])
    assert "places" not in op.attributes
    op.verify()
    assert (op.kernel, op.places, op.node) == ("x86.relu", (nchw, nchw), "relu1")
    assert place_of(op.res.type) == nchw
    op.pick("x86.relu", [PlaceAttr.get("any", "any"), nchw], "layout")
    op.verify()
    assert op.fallback == "layout"
    op.pick("x86.relu", [nhwc, nhwc])
    with pytest.raises(VerifyException, match=r"relu1.*operand 0.*x86\.relu wants x86/f32/nhwc"):
        op.verify()
    op.pick("x86.relu", [nchw])
    with pytest.raises(VerifyException, match="expected 2 places"):
        op.verify()


def test_a_wrong_result_type_is_found() -> None:
    op = nn.ReluOp.create(operands=floats((2,)), result_types=[tensor(f32, (3,))])
    with pytest.raises(VerifyException, match=r"expected tensor<2xf32>, found tensor<3xf32>"):
        op.verify()


def test_dynamic_shapes_are_refused() -> None:
    op = nn.ReluOp.create(operands=floats((-1,)), result_types=[TensorType(f32, [-1])])
    with pytest.raises(VerifyException, match="static shapes"):
        op.verify()


def test_make_names_an_unknown_property() -> None:
    with pytest.raises(InternalError, match="no property beta"):
        nn.LeakyReluOp.make(floats((2,)), alpha=1.0, beta=2.0)


@pytest.mark.parametrize(
    "value",
    [True, False, 3, -(2**63), 0.5, -math.inf, "edge", (), (1, 2), (-1,), (0.5, 2.0), (1, 0.5)],
    ids=str,
)
def test_attributes_and_python_values(value: Any) -> None:
    assert to_python(to_attribute(value)) == value


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_element_types_and_dtypes(dtype: str) -> None:
    assert dtype_of(element_type(dtype)) == np.dtype(dtype)
    assert to_python(element_type(dtype)) == np.dtype(dtype)


@pytest.mark.parametrize("dtype", ["float128", "complex256", "str"])
def test_dtypes_that_have_no_element_type(dtype: str) -> None:
    with pytest.raises(ShapeError, match="no element type"):
        element_type(dtype)


@given(st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4), max_size=3))
def test_broadcast_shapes_as_numpy(shapes: list[list[int]]) -> None:
    try:
        expected = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast_shapes(shapes)
    else:
        assert broadcast_shapes(shapes) == expected


def test_normalise_axis() -> None:
    assert [normalise_axis(axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert normalise_axis(0, 0) == 0
    for axis, rank in ((3, 3), (-4, 3), (1, 0), (-1, 0)):
        with pytest.raises(ShapeError, match="out of range"):
            normalise_axis(axis, rank)


SPLATS: list[tuple[float | bool, str]] = [
    (0.5, "float32"), (-math.inf, "float64"), (True, "bool"), (False, "bool"), (-3, "int8"),
    (200, "uint8"), (2**63 - 1, "int64"), (2**64 - 1, "uint64"),
]  # fmt: skip


@pytest.mark.parametrize("value, dtype", SPLATS)
def test_splat(value: float, dtype: str) -> None:
    op = nn.SplatOp(value, tensor(element_type(dtype), (2, 3)))
    op.verify()
    assert op.number == value
    assert shape_of(op.res) == (2, 3)


def test_a_splat_of_another_type_is_refused() -> None:
    op = nn.SplatOp(1.0, tensor(f32, (2,)))
    Rewriter.replace_value_with_new_type(op.res, tensor(f64, (2,)))
    with pytest.raises(VerifyException, match="not of the element type"):
        op.verify()


def test_element_types_of_settings_become_properties_again() -> None:
    """A pattern makes an op with the settings of another one."""
    product = nn.MatmulOp.make(operands((i8, (2, 3)), (i8, (3, 4))), transpose_b=False, sums=i32)
    again = nn.MatmulOp.make([*product.operands], **product.settings)
    assert again.setting_properties == product.setting_properties
