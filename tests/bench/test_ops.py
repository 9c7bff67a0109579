"""Single ops beside other runtimes: the table of cases, the comparison, and the figures."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench import ops
from bench.contest import attempt
from bench.op_cases import OPS, case, sizes, x
from bench.op_networks import NETWORKS
from bench.ops import Row, measure, summary
from tessella.runtime.values import Array
from tessella.tools import measure as measuring
from tessella.tools.peers import Feeds, Run


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_LONGEST", 0.0)
    monkeypatch.setattr(ops, "TURN", 0.0)


@pytest.mark.parametrize("name", OPS)
def test_a_case_is_as_large_as_its_budget(name: str) -> None:
    budget = 1 << 18
    n = OPS[name].fitted(budget)
    assert OPS[name].bytes(n) <= budget < OPS[name].bytes(n + 1)
    assert OPS[name].bytes(n) > budget / 2
    model, feeds = OPS[name].model(1), OPS[name].feeds(1)
    assert [value.name for value in model.graph.input] == list(feeds)


def test_the_table_has_each_kind_of_op() -> None:
    assert len(Counter(case.op for case in OPS.values())) >= 90
    assert sizes("1 64 n 2*n n*n", 3) == (1, 64, 3, 6, 9)


def test_networks_are_valid() -> None:
    for make in NETWORKS.values():
        model, feeds = make()
        onnx.checker.check_model(model)
        assert [value.name for value in model.graph.input] == list(feeds)


def test_rows_say_what_runs_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setitem(ops.OPS, "Unique rows", case("Unique", "rows", x("n 4"), axis=0))
    names = ["Softmax rows", "Unique rows"]
    assert ops.main([*names, *f"--sizes call --threads 1 --repeat 1 --json {file}".split()]) == 0
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["Softmax rows"]["runs"] == "native"
    assert rows["Unique rows"]["runs"] == "NumPy"
    assert rows["Softmax rows"]["ratio"] > 0
    assert "wrong: none\nfailed: none" in capsys.readouterr().out


def other(result: float, path: Path, threads: int) -> Run:
    """A runtime that gives one number."""

    def run(feeds: Feeds) -> list[Array]:
        return [np.full_like(array, result) for array in feeds.values()]

    return run


def test_an_op_that_differs_from_all_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[onnx.ModelProto, Feeds]:
        return OPS["Relu"].model(4), {"x0": np.full(4, 2, np.float32)}

    for results, differs, wrong in (((2, 3), ["b"], False), ((3, 3), ["a", "b"], True)):
        peers = {name: partial(other, result) for name, result in zip("ab", results, strict=True)}
        monkeypatch.setattr(ops, "OTHERS", peers)
        row = measure("Relu", "call", made, 1, 1)
        assert (row.differs, row.wrong, row.failed) == (differs, wrong, wrong)
        assert (row.ratio is None) == wrong


def test_the_summary_lists_what_is_slow() -> None:
    rows = [
        Row("fast", "l2", 1, {"tessella": 1.0, "a": 2.0}, runs="native"),
        Row("slow", "l2", 1, {"tessella": 4.0, "a": 2.0}, runs="NumPy"),
        Row("absent", "l2", 1, failures={"tessella": "no"}),
    ]
    text = "\n".join(summary(rows))
    assert "below 0.9: 1 of 2" in text
    assert "slow (l2, threads 1)" in text
    assert "failed: absent (l2)" in text


def test_attempts_go_on_after_a_failure() -> None:
    found, failures = attempt({"a": lambda: 1, "b": lambda: 1 // 0})
    assert found == {"a": 1}
    assert failures == {"b": "ZeroDivisionError: integer division or modulo by zero"}
