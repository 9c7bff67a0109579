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
