"""Changing a constant changes results as its row says, and each row names the constant that the
code reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import tessella
from bench import constants
from bench.cases import Case, layer_norm, matmul
from bench.constants import CONSTANTS, Constant, measure

SOURCE = Path(tessella.__file__).parent

NOT_TUNED = {
    "conversions.FREE": "no conversion",
    "cost.MAX_KEPT": "a bound on memory",
    "cost._COSTS": "a bound on memory",
    "search.KEPT": "a bound on memory",
    "search._CHOICES": "a bound on memory",
    "log.SHOWN": "lines of a text",
    "partial.LONG": "bounds an error: tests/kernels/test_accuracy.py",
    "partial.PART": "bounds an error: tests/kernels/test_accuracy.py",
    "partial.LARGEST": "bounds an error: tests/kernels/test_accuracy.py",
    "running.WHOLE": "a cache line, and whole vectors",
    "space.MOST_OF_FEW": "follows from a range of driver/specialise/open_sizes.py",
}
"""Constants of the tile stage without a row, with the reason."""


@pytest.fixture
def one_product(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernels are those of one product."""
    yield from _only(Case("matmul", "33x100x64", partial(matmul, 33, 100, 64)), monkeypatch)


@pytest.fixture
def one_norm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernels are those of one layer norm."""
    yield from _only(Case("rows", "64x384", partial(layer_norm, (64, 384))), monkeypatch)


def _only(case: Case, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(constants, "GROUPS", {case.group: lambda: iter([case])})
    monkeypatch.setattr(constants, "OPS", {})
    monkeypatch.setattr(constants, "NETWORKS", ())
    constants.forget()
    yield
    constants.forget()


@pytest.mark.usefixtures("one_product")
@pytest.mark.parametrize("scope", ["schedules", "kernels", "networks"])
def test_a_worse_value_costs_more_and_an_equal_one_changes_nothing(scope: str) -> None:
    space = CONSTANTS["tile.space.VECTORS"]
    row = Constant(space.module, space.name, ((1,), space.value), scope)
    worse, equal = measure(row, "avx512")
    assert worse.changed == worse.of == equal.of
    assert worse.most >= worse.mean > 1
    assert (equal.changed, equal.mean, equal.most) == (0, 1, 1)


@pytest.mark.usefixtures("one_norm")
def test_a_constant_of_the_lowering_changes_code() -> None:
    held = CONSTANTS["lowering.statement.HELD"]
    less, equal = measure(Constant(held.module, held.name, (0, held.value), "loops"), "avx512")
    assert less.changed == less.of == equal.of == 1
    assert (equal.changed, equal.mean, equal.most) == (0, 1, 1)


def imported() -> set[tuple[str, str]]:
    """Return what modules of the source import from others, by module and name."""
    files = (file for folder in ("passes", "lowering") for file in (SOURCE / folder).rglob("*.py"))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
    return {(node.module or "", alias.name) for node in imports for alias in node.names}


def test_each_constant_is_read_in_its_module_alone() -> None:
    """Another module that imports it would keep the old value."""
    found = imported()
    for row in CONSTANTS.values():
        assert row.value not in row.others
        assert (row.module, row.name) not in found


def numbers(file: Path) -> Iterator[str]:
    """Return the constants of a module that have numbers."""
    for node in ast.parse(file.read_text()).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = (each for target in targets for each in ast.walk(target))
        literals = (each for each in ast.walk(node.value) if isinstance(each, ast.Constant))
        if any(isinstance(each.value, int | float) for each in literals):
            constants = (each.id for each in names if isinstance(each, ast.Name))
            yield from (f"{file.stem}.{name}" for name in constants if name.isupper())


def test_each_constant_of_the_tile_stage_has_a_row() -> None:
    found = {name for file in (SOURCE / "passes" / "tile").glob("*.py") for name in numbers(file)}
    rows = {name.removeprefix("tile.") for name in CONSTANTS if name.startswith("tile.")}
    assert found == rows | set(NOT_TUNED)
    assert not rows & set(NOT_TUNED)
