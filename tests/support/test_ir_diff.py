"""The diff of a program's text."""

from __future__ import annotations

import difflib

from tessella.support.ir_diff import ir_diff

BEFORE = "\n".join(f"%{i} = op {i // 2}" for i in range(20))


def test_as_diff_does() -> None:
    after = BEFORE.replace("%4 = op 2", "%x = other")
    wanted = list(difflib.unified_diff(BEFORE.splitlines(), after.splitlines(), n=2, lineterm=""))
    assert list(ir_diff(BEFORE, after)) == wanted[2:]


def test_other_numbers_are_no_change() -> None:
    lines = BEFORE.splitlines()
    after = [lines[0], *(f"%{i - 1} = op {i // 2}" for i in range(2, 20))]
    assert list(ir_diff(BEFORE, "\n".join(after))) == [
        "@@ -1,3 +1,2 @@",
        "-%0 = op 0",
        " %0 = op 0",
        " %1 = op 1",
    ]


def test_nothing_changed() -> None:
    assert list(ir_diff(BEFORE, BEFORE)) == []
    assert list(ir_diff("", "")) == []
