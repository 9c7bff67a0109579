"""Tables of bounded size."""

from __future__ import annotations

from tessella.support.tables import remembered


def test_values_are_made_once_until_the_table_is_full() -> None:
    made: list[int] = []
    table: dict[int, str] = {}

    def value(key: int) -> str:
        return remembered(table, key, 2, lambda: made.append(key) or str(key))

    assert [value(key) for key in (1, 2, 1, 2)] == ["1", "2", "1", "2"]
    assert made == [1, 2]
    assert [value(key) for key in (3, 3, 1)] == ["3", "3", "1"]
    assert made == [1, 2, 3, 1]
    assert len(table) == 2
