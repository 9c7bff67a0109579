"""The budgets of the folders of tests."""

from __future__ import annotations

from pathlib import Path

from tests.budgets import BUDGETS, exceeded

HERE = Path(__file__).parent


def test_every_folder_has_a_budget() -> None:
    folders = {path.relative_to(HERE).parts[0] for path in HERE.rglob("*/test_*.py")}
    assert folders | {""} == {*BUDGETS}


def test_a_folder_over_its_budget_is_named() -> None:
    times = [
        ("tests/targets/test_x.py::test_a", 1.5),
        ("tests/targets/a/test_y.py::test_b[c::d]", 2.0),
    ]
    assert not [*exceeded(times[:1])]
    assert [*exceeded(times)] == ["tests/targets: 4 s, its budget is 2 s (tests/budgets.py)"]
    assert not [*exceeded(times, slow=True)]
