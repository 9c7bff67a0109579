"""The fields that a device adds to its places: their text, what is refused, and copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, f32
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tessella.dialects.layout import NCHW
from tessella.dialects.place import (
    CopyOp,
    Place,
    PlaceAttr,
    RelayoutOp,
    conversion_steps,
    parse_place,
    placed,
    verify_place,
)
from tessella.passes.pick.choices import split_pin
from tessella.passes.pick.pins import parse_pin
from tessella.runtime.devices import BUILT_IN, fields_of
from tessella.support.errors import OptionError, PluginError
from tessella.support.plugins import DEVICES, Plugin
from tests import bare_device, run_lines

KNOWN = "one of memory=global, memory=local, memory=any, tiling=linear, tiling=2d, tiling=any"
GLOBAL = "acme/f32/nchw/memory=global/tiling=linear"
LOCAL = "acme/f32/nchw/memory=local/tiling=linear"


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `acme`, with the fields `memory` and `tiling`."""
    plugin = Plugin("test", "acme", "tests.bare_device:FIELDS", DEVICES)
    monkeypatch.setitem(BUILT_IN, "acme", plugin)


def parse(text: str) -> PlaceAttr:
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Place)
    found = Parser(ctx, text).parse_attribute()
    assert isinstance(found, PlaceAttr)
    return found


def test_places_as_users_write_them() -> None:
    for text in ("acme/f32/nchw/memory=local", GLOBAL, LOCAL, "acme/any/any/tiling=2d"):
        assert str(parse_place(text)) == text
    assert str(parse_place("acme/tiling=2d/memory=local")) == "acme/any/any/memory=local/tiling=2d"
    assert str(parse_place("acme/f32/memory=any")) == "acme/f32/any"
    assert parse_place("acme/tiling=2d/memory=local") == parse_place("acme/memory=local/tiling=2d")
    assert len({parse_place(GLOBAL), parse_place(LOCAL), parse_place("acme/f32/nchw")}) == 3


@pytest.mark.parametrize(
    "text, message, expected",
    [
        ("acme/f32/nchw/memory=far", "unknown part 'memory=far'", KNOWN),
        ("acme/f32/nchw/space=local", "unknown part 'space=local'", KNOWN),
        ("acme/memory=local/f32", "unknown part 'f32'", KNOWN),
        ("acme/memory=", "unknown part 'memory='", KNOWN),
        ("acme/memory=local/memory=any", "names a field twice", "one value of each field"),
        ("x86/f32/nchw/memory=local", "'memory=local'", "no field: x86 defines none"),
        ("any/memory=local", "'memory=local'", "no field: any defines none"),
    ],
)
def test_unknown_fields(text: str, message: str, expected: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        parse_place(text)
    assert caught.value.expected == expected


def test_places_of_values_have_the_defaults() -> None:
    place = PlaceAttr.get("acme", "f32", NCHW)
    assert str(place) == GLOBAL
    verify_place(TensorType(f32, [2], place))
    with pytest.raises(VerifyException, match=r"a value of each field \(memory, tiling\), found"):
        verify_place(TensorType(f32, [2], parse("#place.at<acme, f32, nchw>")))


def test_missing_fields_match_all_values() -> None:
    open_, local, here = map(parse_place, ("acme", LOCAL, "x86/f32/nchw"))
    assert open_.accepts(local)
    assert not parse_place("acme/memory=global").accepts(local)
    assert open_.resolved(local) == local
    assert str(parse_place("acme/memory=local").resolved(here)) == LOCAL
    assert parse_place("any/f32").resolved(open_) == parse_place("acme/f32")


@pytest.mark.parametrize(
    "start, end, steps",
    [
        (GLOBAL, LOCAL, f"copy {LOCAL}"),
        (GLOBAL, "acme/f32/nchw", ""),
        (LOCAL, "acme/f32/nchw", ""),
        ("x86/f32/nchw", LOCAL, f"copy {GLOBAL}, copy {LOCAL}"),
        ("x86/f32/nchw", "acme/f32/nchw", f"copy {GLOBAL}"),
        (LOCAL, "x86/f32/nchw", f"copy {GLOBAL}, copy x86/f32/nchw"),
        (
            LOCAL,
            LOCAL.replace("nchw", "nhwc"),
            f"copy {GLOBAL}, relayout {GLOBAL.replace('nchw', 'nhwc')}, "
            f"copy {LOCAL.replace('nchw', 'nhwc')}",
        ),
    ],
)
def test_copies_change_fields(start: str, end: str, steps: str) -> None:
    found = conversion_steps(parse_place(start), parse_place(end))
    assert ", ".join(f"{op.name.removeprefix('place.')} {place}" for op, place in found) == steps


def test_pins_name_fields() -> None:
    assert split_pin("n=acme/f32/nchw/memory=local") == ("n", "acme/f32/nchw/memory=local")
    assert split_pin("a=b=acme/memory=local,kernel=k") == ("a=b", "acme/memory=local,kernel=k")
    assert split_pin("a/b=c=x86/f32") == ("a/b=c", "x86/f32")
    pin = parse_pin("acme/f32/nchw/memory=local,kernel=k")
    assert (str(pin.place), pin.kernel) == ("acme/f32/nchw/memory=local", "k")


def test_the_text_of_the_ir() -> None:
    """A filecheck test with the device `acme`, which only this process knows."""
    [command] = run_lines.commands(Path(__file__).with_name("place_fields.mlir"))
    run_lines.run(command)


@pytest.mark.parametrize(
    "text, message",
    [
        ('#place.at<acme, f32, nchw, {memory = "far"}>', "one of memory=global, .*'memory=far'"),
        ("#place.at<acme, f32, nchw, {memory = 3}>", "strings as the fields of a place"),
        ('#place.at<x86, f32, nchw, {memory = "local"}>', "no field: x86 defines none"),
        ("#place.at<acme, f32, nchw, memory>", "expected"),
    ],
)
def test_ir_with_unknown_fields(text: str, message: str) -> None:
    with pytest.raises((ParseError, VerifyException), match=message):
        parse(text)
    assert parse('#place.at<acme, any, any, {memory = "any"}>') == parse_place("acme")


def test_only_copies_change_fields() -> None:
    value = Block(arg_types=[placed(TensorType(f32, [2]), parse_place(GLOBAL))]).args[0]
    CopyOp(value, parse_place(LOCAL)).verify()
    with pytest.raises(VerifyException, match="the device differs"):
        RelayoutOp(value, parse_place(LOCAL.replace("nchw", "nhwc"))).verify()


def test_invalid_declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in (
        bare_device.Field(("a", "b"), "c"),
        bare_device.Field(("any",), "any"),
        bare_device.Field(("a/b",), "a/b"),
    ):
        monkeypatch.setattr(bare_device.FieldDevice, "fields", {"memory": field})
        with pytest.raises(PluginError, match="invalid field 'memory' of places"):
            fields_of("acme")
