"""The figures of a source tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.structure import Module, cycles, imports, read, report, shared_classes, unexplained

TEXT = '''"""A module."""
from tessella.b import Shape
FEW = 16
MANY = -2 * 8
"""Measured by bench.models."""
# one line of cache
LINE = 64
NAMES = ("x", 1)
class Shape:
    """A shape."""
    def size(self):
        """The size."""
        x = 1; return x
'''


def test_statements_count_neither_lines_nor_docstrings() -> None:
    lines = list(report([Module("tessella.a", TEXT)]))
    assert lines[:4] == [
        "files: 1",
        "statements: 9",
        "longest function in statements: 3, tessella.a.size",
        "longest function in lines: 3, tessella.a.size",
    ]
    assert lines[4] == "public names: 5"


def test_constants_without_an_explanation() -> None:
    assert list(unexplained(Module("tessella.a", TEXT))) == ["tessella.a.FEW"]


def test_cycles_are_closed_by_imports_in_functions_too() -> None:
    a = Module("p.a", "from p import b\nfrom p.c import f\n")
    b = Module("p.b", "def f():\n    import p.a\n")
    c = Module("p.c", "import numpy\n")
    graph = {m.name: imports(m, ("p", "p.a", "p.b", "p.c")) for m in (a, b, c)}
    assert cycles(graph) == [["p.a", "p.b"]]


def test_classes_of_one_name() -> None:
    modules = [Module(name, TEXT) for name in ("a", "b")]
    assert shared_classes(modules) == {"Shape": ["a", "b"]}


def test_a_checkout_is_read_through_its_links(tmp_path: Path) -> None:
    (tmp_path / "src" / "tessella").mkdir(parents=True)
    (tmp_path / "low" / "lower").mkdir(parents=True)
    for file in ("src/tessella/__init__.py", "low/__init__.py", "low/lower/x.py"):
        (tmp_path / file).touch()
    (tmp_path / "src" / "tessella" / "low").symlink_to("../../low")
    names = [module.name for module in read(tmp_path)]
    assert names == ["tessella", "tessella.low", "tessella.low.lower.x"]


@pytest.mark.slow
def test_the_source_has_no_import_cycles_and_explains_its_constants() -> None:
    modules = read(Path(__file__).parent.parent)
    known = [module.name for module in modules]
    assert cycles({module.name: imports(module, known) for module in modules}) == []
    assert [name for module in modules for name in unexplained(module)] == []
