"""Places: their text, what is refused, and the conversions between them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Builtin,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tessella.dialects.layout import ANY_LAYOUT, NCHW, NHWC, Layout, Piece
from tessella.dialects.place import (
    PRECISIONS,
    CastOp,
    CopyOp,
    LayoutAttr,
    Place,
    PlaceAttr,
    RelayoutOp,
    conversion_steps,
    known_devices,
    logical,
    parse_place,
    place_of,
    placed,
    precision_of,
)
from tessella.support.errors import OptionError, ShapeError

PACKED = Layout("packed", (Piece(0, div=32), Piece(2), Piece(3), Piece(1), Piece(0, mod=32)))
HERE = PlaceAttr.get("x86", "f32", NCHW)


def parse(text: str) -> Attribute:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Place)
    return Parser(ctx, text).parse_attribute()


@pytest.mark.parametrize(
    "place, text",
    [
        (PlaceAttr.get("x86", "f32", NHWC), "#place.at<x86, f32, nhwc>"),
        (PlaceAttr.get("host", "any"), "#place.at<host, any, any>"),
        (PlaceAttr.get("opencl:1", "f32", NHWC), "#place.at<opencl:1, f32, nhwc>"),
        (
            PlaceAttr.get("arm", "f16", PACKED),
            "#place.at<arm, f16, packed<[0 floordiv 32, 2, 3, 1, 0 mod 32]>>",
        ),
    ],
)
def test_text(place: PlaceAttr, text: str) -> None:
    assert str(TensorType(f32, [2, 3], place)) == f"tensor<2x3xf32, {text}>"
    assert parse(text) == place


PIECES = st.builds(
    Piece, st.integers(0, 5), st.just(1) | st.integers(2, 64), st.just(0)
) | st.builds(Piece, st.integers(0, 5), st.just(1), st.integers(1, 64))
LAYOUTS = st.sampled_from([NCHW, NHWC, ANY_LAYOUT]) | st.builds(
    Layout, st.just("packed"), st.lists(PIECES, min_size=1, max_size=5).map(tuple)
)


@given(st.sampled_from(known_devices()), st.sampled_from(PRECISIONS), LAYOUTS)
def test_text_is_read_back(target: str, precision: str, layout: Layout) -> None:
    place = PlaceAttr.get(target, precision, layout)
    type = TensorType(f32, [2, 3], place)
    assert parse(str(type)) == type


@pytest.mark.parametrize(
    "text, message",
    [
        ("#place.at<tpu, f32, nchw>", r"expected a device \(host, x86, .*found 'tpu'"),
        ("#place.at<x86, f8, nchw>", r"expected a precision \(f64, .*found 'f8'"),
        ("#place.at<x86, f32, nchw4>", r"expected a layout \(nchw, .*found 'nchw4'"),
        ("#place.at<x86, f32>", "','"),
        ("#place.at<x86, f32, packed>", "'<'"),
        ("#place.at<x86, f32, packed<[0 mod -2]>>", "integer"),
        ("#place.at<x86, f32, packed<[0 mod 0]>>", "at least 1"),
        ("#place.at<x86, f32, packed<[0 floordiv 0]>>", "at least 1"),
        ("#place.at<x86, f32, packed<[]>>", "the pieces of"),
        ("#place.at<x86, f32, packed<[a]>>", "integer"),
    ],
)
def test_text_that_is_no_place(text: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException), match=message):
        parse(text)


@pytest.mark.parametrize("device", ["", "X86", "cpu"])
def test_unknown_devices(device: str) -> None:
    with pytest.raises(VerifyException, match="expected a device"):
        PlaceAttr.get(device, "f32")


def test_places_as_users_write_them() -> None:
    assert parse_place("x86/f32/nhwc") == PlaceAttr.get("x86", "f32", NHWC)
    text = "x86/f32/packed<[0 floordiv 4, 1, 0 mod 4]>"
    dots = (Piece(0, div=4), Piece(1), Piece(0, mod=4))
    assert parse_place(text) == PlaceAttr.get("x86", "f32", Layout("packed", dots))
    assert parse_place("x86/f32") == PlaceAttr.get("x86", "f32", ANY_LAYOUT)
    assert parse_place("arm") == PlaceAttr.get("arm", "any", ANY_LAYOUT)
    for parts in itertools.product(known_devices(), PRECISIONS, ("nchw", "nhwc", "nchw16c", "any")):
        text = "/".join(parts)
        assert str(parse_place(text)) == text


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "unknown part ''"),
        ("x68", "(?s)unknown part 'x68'.*one of host, x86"),
        ("x86/f33", "(?s)unknown part 'f33'.*one of f64"),
        ("x86/f32/nwhc", "(?s)unknown part 'nwhc'.*one of nchw"),
        ("x86/f32/nchw0c", "unknown part 'nchw0c'"),
        ("x86/f32/nchw16c x", "unknown part"),
        ("x86/f32/packed<[0, 1]> 3", "unknown part"),
        ("x86/f32/packed<[0 floordiv 4, 1, 0 mod 3]>", "is not a memory order"),
        ("x86/f32/packed", "unknown part 'packed'"),
        ("x86/f32/nchw/", "too many parts"),
        ("x86//nchw", "unknown part ''"),
        (" x86", "unknown part"),
    ],
)
def test_places_that_do_not_exist(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_place(text)


@pytest.mark.parametrize("thing", [None, 3, b"host", ["host"]])
def test_what_is_no_place(thing: Any) -> None:
    with pytest.raises(OptionError, match="a place is a text"):
        parse_place(thing)


@pytest.mark.parametrize(
    "element, name",
    [
        (f32, "f32"),
        (f64, "f64"),
        (f16, "f16"),
        (BFloat16Type(), "bf16"),
        (i1, "bool"),
        (i8, "i8"),
        (i64, "i64"),
        (IntegerType(8, Signedness.UNSIGNED), "u8"),
    ],
)
def test_precision_of(element: Attribute, name: str) -> None:
    assert precision_of(element) == name


def test_precision_of_what_has_none() -> None:
    with pytest.raises(ShapeError, match="index"):
        precision_of(IndexType())


def test_placed_and_logical() -> None:
    type = TensorType(f32, [2, 3])
    there = placed(type, HERE)
    assert place_of(there) == HERE
    assert place_of(type) is None
    assert place_of(f32) is None
    assert logical(there) == type
    assert logical(type) is type
    assert place_of(placed(there, PlaceAttr.get("host", "f32"))) == PlaceAttr.get("host", "f32")


def value(place: PlaceAttr | None, *shape: int) -> SSAValue:
    """A value of type f32 at a place."""
    type = TensorType(f32, shape or (1, 2, 3))
    return Block(arg_types=[placed(type, place) if place else type]).args[0]


CHANGES = {
    CopyOp: PlaceAttr.get("host", "f32", NCHW),
    CastOp: PlaceAttr.get("x86", "f16", NCHW),
    RelayoutOp: PlaceAttr.get("x86", "f32", NHWC),
}


@pytest.mark.parametrize("op", CHANGES)
def test_conversions(op: type[CopyOp | CastOp | RelayoutOp]) -> None:
    converted = op(value(HERE), CHANGES[op])
    converted.verify()
    assert converted.res.type == placed(TensorType(f32, [1, 2, 3]), CHANGES[op])


@pytest.mark.parametrize("op", CHANGES)
def test_conversions_that_change_nothing(op: type[CopyOp | CastOp | RelayoutOp]) -> None:
    with pytest.raises(VerifyException, match=f"the {op.CHANGES} stays"):
        op(value(HERE), HERE).verify()


@pytest.mark.parametrize("op, other", list(itertools.permutations(CHANGES, 2)))
def test_conversions_that_change_something_else(
    op: type[CopyOp | CastOp | RelayoutOp], other: type[CopyOp | CastOp | RelayoutOp]
) -> None:
    with pytest.raises(VerifyException, match=f"changes the {op.CHANGES} alone"):
        op(value(HERE), CHANGES[other]).verify()


def test_conversions_of_tensors_without_a_place() -> None:
    with pytest.raises(VerifyException, match="expected tensors with a place"):
        RelayoutOp(value(None), HERE).verify()


def test_conversions_keep_the_shape() -> None:
    result = placed(TensorType(f32, [3, 2, 1]), CHANGES[RelayoutOp])
    op = RelayoutOp.create(operands=[value(HERE)], result_types=[result])
    with pytest.raises(VerifyException, match=r"expected the shape \(1, 2, 3\), found \(3, 2, 1\)"):
        op.verify()


def test_elements_are_those_of_the_places_precision() -> None:
    result = TensorType(f64, [1, 2, 3], CHANGES[RelayoutOp])
    op = RelayoutOp.create(operands=[value(HERE)], result_types=[result])
    with pytest.raises(
        VerifyException, match=r"elements of the place's precision f32, found .*f64"
    ):
        op.verify()


def test_casts_change_the_elements() -> None:
    op = CastOp(value(HERE), PlaceAttr.get("x86", "bf16", NCHW))
    op.verify()
    assert op.res.type == TensorType(BFloat16Type(), [1, 2, 3], PlaceAttr.get("x86", "bf16", NCHW))


@pytest.mark.parametrize(
    "start, end, steps",
    [
        ("x86/f32/nchw", "x86/f32/nchw", ""),
        ("x86/f32/nchw", "x86/f64/nhwc", "relayout x86/f32/nhwc, cast x86/f64/nhwc"),
        ("x86/f64/nhwc", "x86/f32/nchw", "cast x86/f32/nhwc, relayout x86/f32/nchw"),
        (
            "host/f32/nchw",
            "x86/f64/nhwc",
            "copy x86/f32/nchw, relayout x86/f32/nhwc, cast x86/f64/nhwc",
        ),
        (
            "x86/f32/nhwc",
            "host/f64/nchw",
            "relayout x86/f32/nchw, cast x86/f64/nchw, copy host/f64/nchw",
        ),
        (
            "x86/f32/nhwc",
            "opencl/f16/image",
            "cast x86/f16/nhwc, relayout x86/f16/nchw, copy opencl/f16/nchw, "
            "relayout opencl/f16/image",
        ),
        (
            "opencl/f16/image",
            "x86/f32/nhwc",
            "relayout opencl/f16/nchw, copy x86/f16/nchw, relayout x86/f16/nhwc, cast x86/f32/nhwc",
        ),
        ("x86/f32/nchw16c", "x86/f32/nchw4c", "relayout x86/f32/nchw4c"),
        ("x86/f32/nchw16c", "x86/f32/nchw12c", "relayout x86/f32/nchw, relayout x86/f32/nchw12c"),
    ],
)
def test_values_are_moved_while_they_are_narrow(start: str, end: str, steps: str) -> None:
    found = conversion_steps(parse_place(start), parse_place(end))
    assert ", ".join(f"{op.name.removeprefix('place.')} {place}" for op, place in found) == steps


@pytest.mark.parametrize("name", ["csr", "coo", "sparse"])
def test_sparse_layouts_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}', which is sparse: all tensors"):
        parse_place(f"x86/f32/{name}")
    with pytest.raises(ParseError, match="which is sparse"):
        LayoutAttr.parse_parameter(Parser(Context(), name))
