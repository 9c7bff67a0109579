"""Elements and layouts of plugins, and errors for invalid ones."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from tessella.dialects import elements as ir
from tessella.dialects import layout as layouts
from tessella.dialects.layout import NCHW, Layout, is_layout_name, layout_words
from tessella.dialects.nn import Nn
from tessella.dialects.place import parse_place
from tessella.support import elements
from tessella.support.elements import ELEMENTS, Element
from tessella.support.errors import PluginError
from tessella.support.plugins import ELEMENTS as GROUP
from tessella.support.plugins import LAYOUTS
from tests.plugins import Installer, forget


def forget_layouts() -> None:
    forget()
    for table in (layouts._plugged, layouts._widths, layouts._named_order):
        table.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Installer]:
    yield Installer(tmp_path, monkeypatch)
    forget_layouts()


def install_layout(install: Installer, body: str, name: str = "mine") -> None:
    source = f"from tessella.dialects.layout import Piece\n\ndef order(rank):\n    return {body}\n"
    install("my_plugin", source, {LAYOUTS: {name: "my_plugin:order"}})
    forget_layouts()


def test_a_layout(install: Installer) -> None:
    install_layout(install, "[Piece(d) for d in reversed(range(rank))]")
    mine = parse_place("host/f32/mine").layout
    assert (mine, str(mine), mine.is_split) == (Layout("mine"), "mine", False)
    assert [mine.is_order(4), mine.for_rank(2), mine.nests(Layout("nchw16c"))] == [True, NCHW, True]
    assert mine.strides((2, 3, 4)) == (6, 2, 1)
    assert mine.same_memory(NCHW, (1, 5, 1))
    assert not mine.same_memory(NCHW, (2, 5, 1))
    assert layout_words().endswith(", mine")


def test_a_layout_that_splits(install: Installer) -> None:
    install_layout(install, "[*map(Piece, range(1, rank)), Piece(0, 4), Piece(0, 1, 4)]")
    mine = Layout("mine")
    assert is_layout_name("mine")
    assert (mine.is_split, mine.splits(4), mine.splits(2)) == (True, True, False)
    assert (mine.nests(Layout("nchw3c")), mine.size((5, 1, 2))) == (True, 16)
    assert not mine.nests(Layout("packed", (layouts.Piece(0, 3), layouts.Piece(0, 1, 3))))


@pytest.mark.parametrize(
    "name, body, message",
    [
        ("nhwc", "[]", "'nhwc' already exists"),
        ("csr", "[Piece(d) for d in range(rank)]", "'csr' has the name of a sparse one"),
        ("nchw4c", "[]", "'nchw4c' already exists"),
        ("a-b", "[]", "letters, digits, underscores"),
        ("mine", "[Piece(0)]", "not a memory order"),
        ("mine", "[Piece(d, 2) for d in range(rank)]", "not a memory order"),
        ("mine", "1 // 0", "ZeroDivisionError"),
        ("mine", "['0'] * rank", "AttributeError"),
    ],
)
def test_wrong_layouts(install: Installer, name: str, body: str, message: str) -> None:
    install_layout(install, body, name)
    with pytest.raises(PluginError, match=message):
        is_layout_name("unknown")


ROW = "Element('e4', 4, 'signed', 'uint8', 'i4', 'e4', is_native=False)"


def plugged(install: Installer, row: str, name: str = "e4") -> list[Element]:
    source = f"from tessella.support.elements import Element\n\nrow = {row}\n"
    install("my_plugin", source, {GROUP: {name: "my_plugin:row"}})
    return [*elements._plugged(ELEMENTS)]


def test_an_element_that_mlir_lacks(install: Installer) -> None:
    [element] = plugged(install, ROW)
    attribute = ir._attribute(element)
    assert str(attribute) == '!nn.element<"e4">'
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Nn)
    assert Parser(ctx, str(attribute)).parse_type() == attribute


@pytest.mark.parametrize(
    "row, message",
    [
        ("1", "no such element"),
        (ROW.replace("'e4', 4", "'e5', 4"), "no such element"),
        (ROW.replace("'i4', 'e4'", "'i4', 'int4'"), "already exists"),
        (ROW.replace("4, 'signed'", "3, 'signed'"), "1, 2, 4 or 8 bits"),
        (ROW.replace("'signed'", "'string'"), "a float or an integer"),
        (ROW.replace("'signed'", "'float'"), "an exponent"),
        (ROW.replace("'i4', 'e4'", "'i4'"), "field 'foreign'"),
        (ROW.replace(", is_native=False", ""), "is_native=False"),
        (ROW.replace("is_native", "narrow=True, is_native"), "narrow"),
    ],
)
def test_wrong_elements(install: Installer, row: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        plugged(install, row)
