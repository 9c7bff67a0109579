"""IR as text with aliases of places."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp, StringAttr, f16, f32
from xdsl.dialects.func import FuncOp

from tessella.dialects.layout import NCHW, NHWC, Layout, Piece
from tessella.dialects.nn.core import tensor
from tessella.dialects.place import PlaceAttr, placed
from tessella.dialects.printing import WIDTH, to_text, wrapped
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context


def _module(*places: PlaceAttr) -> ModuleOp:
    """A module whose one function takes a tensor at each place."""
    elements = {"f32": f32, "f16": f16}
    types = [placed(tensor(elements[p.precision.data], (1, 64, 8, 8)), p) for p in places]
    return ModuleOp([FuncOp.external("f", types, [])])


def _aliases(text: str) -> dict[str, str]:
    return dict(re.findall(r"^#(\S+) = #place\.at<(.*)>$", text, re.MULTILINE))


def test_the_layout_names_a_place_where_it_tells_places_apart() -> None:
    places = [PlaceAttr.get("x86", "f32", layout) for layout in (NCHW, NHWC)]
    text = to_text(_module(*places))
    assert _aliases(text) == {"nchw": "x86, f32, nchw", "nhwc": "x86, f32, nhwc"}
    assert "tensor<1x64x8x8xf32, #nhwc>" in text


def test_parts_that_differ_come_before_the_layout() -> None:
    places = [PlaceAttr.get("x86", precision, NHWC) for precision in ("f32", "f16")]
    assert set(_aliases(to_text(_module(*places)))) == {"f32_nhwc", "f16_nhwc"}
    places = [PlaceAttr.get(target, "f32", NHWC) for target in ("x86", "host")]
    assert set(_aliases(to_text(_module(*places)))) == {"x86_nhwc", "host_nhwc"}


def test_numbers_tell_packed_layouts_apart() -> None:
    widths = (16, 32)
    layouts = [
        Layout("packed", (Piece(1, div=w), Piece(0), Piece(2), Piece(3), Piece(1, mod=w)))
        for w in widths
    ]
    text = to_text(_module(*(PlaceAttr.get("x86", "f32", layout) for layout in layouts)))
    assert set(_aliases(text)) == {"packed", "packed_1"}


def test_a_module_without_places_has_no_aliases() -> None:
    module = ModuleOp([FuncOp.external("f", [tensor(f32, (4,))], [])])
    assert to_text(module) == str(module)


def test_the_text_is_read_again() -> None:
    places = [PlaceAttr.get("x86", "f32", layout) for layout in (NCHW, NHWC)]
    module = _module(*places)
    read = LocatedParser(stage_context(), to_text(module), "text").parse()
    assert isinstance(read, ModuleOp)
    assert read.is_structurally_equivalent(module)
    assert isinstance(next(iter(read.ops)), FuncOp)


def test_the_generic_form_has_aliases_too() -> None:
    module = _module(PlaceAttr.get("x86", "f32", NHWC))
    text = to_text(module, generic=True)
    assert _aliases(text) == {"nhwc": "x86, f32, nhwc"}
    assert '"func.func"' in text


def test_long_lines_are_continued() -> None:
    places = [PlaceAttr.get("x86", "f32", layout) for layout in (NCHW, NHWC) * 10]
    module = _module(*places)
    module.attributes["note"] = StringAttr("a, b " * 40)
    text = to_text(module)
    lines = text.splitlines()
    assert [i for i, line in enumerate(lines) if len(line) > WIDTH] == [2]
    assert f'"{"a, b " * 40}"' in text
    read = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(read, ModuleOp)
    assert read.is_structurally_equivalent(module)
    assert to_text(module, wrap=False).count("\n") < len(lines) - 1


def test_a_line_breaks_where_the_fewest_brackets_are_open() -> None:
    inner = ", ".join(f"%argument{i}" for i in range(6))
    line = f"    nn.op ({inner}) outs({inner})"
    assert wrapped(line) == f"    nn.op ({inner})\n        outs({inner})"
    assert wrapped(line[:WIDTH]) == line[:WIDTH]
