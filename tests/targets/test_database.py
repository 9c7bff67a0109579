"""The database of times: what is read is checked, and the better measured times stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tessella import targets
from tessella.support.errors import OptionError
from tessella.targets import database
from tessella.targets.database import Database, TimedMachine, Timing

HERE, THERE = TimedMachine("a", "avx512 "), TimedMachine("b", "avx2 ")
GOOD = Timing(1000.0, 0.01, 25)


def document(**changes: Any) -> dict[str, Any]:
    machine = {"processor": "a", "target": "avx512 ", "kernels": {"k": [1000.0, 0.01, 25]}}
    return {"format": "tessella times", "version": 1, "machines": [machine]} | changes


def parse(found: Any) -> Database:
    return database.parse(json.dumps(found).encode(), "x.json")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.json"
    database.update(path, Database({HERE: {"k": GOOD}}))
    database.update(path, Database({THERE: {"k": Timing(1.0, 0.0, 1)}}))
    found = database.read(path)
    assert found.of(HERE) == {"k": GOOD}
    assert found.of(THERE) == {"k": (1.0, 0.0, 1)}
    assert found.of(TimedMachine("c", "")) == {}
    assert [file.name for file in path.parent.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    "other, better",
    [
        (Timing(900.0, 0.5, 26), True),
        (Timing(1.0, 0.0, 24), False),
        (Timing(2000.0, 0.005, 25), True),
        (Timing(1.0, 0.02, 25), False),
    ],
)
def test_the_better_measured_time_stays(other: Timing, better: bool) -> None:
    for first, second in ((GOOD, other), (other, GOOD)):
        found = Database()
        found.add(HERE, {"k": first})
        found.merge(Database({HERE: {"k": second, "new": GOOD}}))
        assert found.of(HERE) == {"k": other if better else GOOD, "new": GOOD}


def test_a_file_is_read_anew_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    target = targets.native()
    here = database.this_machine(target)
    database.update(path, Database({here: {"k": GOOD}}))
    first = database.digest(str(path))
    assert database.of_this_machine(str(path), target) == {"k": GOOD}
    database.update(path, Database({here: {"another": GOOD}}))
    assert database.of_this_machine(str(path), target).keys() == {"k", "another"}
    assert database.digest(str(path)) != first
    assert (database.of_this_machine("", target), database.digest("")) == ({}, "")


WRONG: list[Any] = [
    [],
    {},
    document(format="another"),
    document(version=2),
    document(version="1"),
    document(machines=None),
    document(machines=[None]),
    document(machines=[{"processor": "a"}]),
    document(machines=[{"processor": 1, "target": "", "kernels": {}}]),
    document(machines=[{"processor": "a", "target": "", "kernels": []}]),
    *(
        document(machines=[{"processor": "a", "target": "", "kernels": {key: value}}])
        for key, value in [
            ("k", None),
            ("k", [1.0, 0.0]),
            ("k", [0.0, 0.0, 1]),
            ("k", [-1.0, 0.0, 1]),
            ("k", [1e300, 0.0, 1]),
            ("k", [float("nan"), 0.0, 1]),
            ("k", [float("inf"), 0.0, 1]),
            ("k", [True, 0.0, 1]),
            ("k", ["1", 0.0, 1]),
            ("k", [1.0, -0.1, 1]),
            ("k", [1.0, 0.0, 0]),
            ("k", [1.0, 0.0, 1.5]),
            ("k", [1.0, 0.0, 1 << 30]),
            ("k" * 10_000, [1.0, 0.0, 1]),
        ]
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="the database of times") as caught:
        parse(wrong)
    assert "x.json" in str(caught.value)
    assert "tessella tune" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(OptionError, match="is no JSON"):
        database.parse(content)


def test_what_is_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document()))
    monkeypatch.setattr(database, "MAX_ENTRIES", 1)
    with pytest.raises(OptionError, match="too many"):
        database.read(path)
    monkeypatch.setattr(database, "MAX_BYTES", 10)
    with pytest.raises(OptionError, match="too large"):
        database.digest(str(path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", tmp_path / "x\0y"):
        with pytest.raises(OptionError, match="cannot be read"):
            database.read(path)
    (tmp_path / "file").write_text("")
    for put in (database.write, database.update):
        with pytest.raises(OptionError, match="cannot be written"):
            put(tmp_path / "file" / "x.json", Database())


# ** several writers **

WRITERS, ENTRIES = 4, 25

WRITER = f"""
import sys
from tessella.targets.database import Database, TimedMachine, Timing, update

for number in range({ENTRIES}):
    times = {{sys.argv[2] + str(number): Timing(1.0, 0.0, 1)}}
    update(sys.argv[1], Database({{TimedMachine("a", "b"): times}}))
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    names = [chr(ord("a") + i) for i in range(WRITERS)]
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), n]) for n in names]
    assert [process.wait() for process in running] == [0] * WRITERS
    found = database.read(path).of(TimedMachine("a", "b"))
    assert found.keys() == {f"{name}{number}" for name in names for number in range(ENTRIES)}
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_a_writer_that_hangs_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    path = tmp_path / "x.json"
    with database._alone(path):
        database.update(path, Database({HERE: {"k": GOOD}}))
    assert database.read(path).of(HERE) == {"k": GOOD}
