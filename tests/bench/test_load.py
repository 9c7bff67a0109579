"""The figures of models under load: each cell has some, of calls that all callers make."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench import load
from bench.over_http import over_http
from tests.tools.networks import network


def test_a_cell_has_the_calls_of_all_callers() -> None:
    lock, count = threading.Lock(), 0

    def call() -> None:
        nonlocal count
        with lock:
            count += 1

    seconds, total = load.latencies([call] * 3, 10)
    # each caller makes as many calls as the others
    assert len(seconds) == 12
    assert count == 12 + 3 * load.WARMUP
    assert 0 <= min(seconds) <= max(seconds) <= total


@pytest.mark.slow
def test_a_runtime_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mobilenet", "--peers", "tessella", "--callers", "1,2", "--threads", "2"]
    assert load.main([*arguments, "--calls", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[-4:]] == [
        f"mobilenet_opset18, {callers}{beside}"
        for beside in ("", ", spinner")
        for callers in (1, 2)
    ]


def test_callers_over_http_get_answers(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    onnx.save(network(nodes, {"x": (2, 4)}, {"y": (2, 4)}, {}), path)
    feeds = {"x": np.ones((2, 4), np.float32)}
    with load.callers_of("http", path, 1, feeds, 2) as callers:
        seconds, _ = load.latencies(callers, 4)
    assert len(seconds) == 4
    wrong = {"x": np.ones((2, 3), np.float32)}
    refused = pytest.raises(RuntimeError, match="shape is wrong")
    with over_http(path, 1, wrong, 1) as [caller], refused:
        caller()


def test_the_cost_of_the_protocol_is_that_of_equal_calls() -> None:
    cells = [
        load.Cell("m", "tessella", 1, 2, False, 1.0, 2.0, 1000.0),
        load.Cell("m", "tessella", 1, 2, True, 9.0, 9.0, 1000.0),
        load.Cell("m", "onnxruntime", 1, 2, False, 5.0, 5.0, 1000.0),
        load.Cell("m", "http", 1, 2, False, 1.5, 2.0, 1000.0),
        load.Cell("m", "http", 2, 2, False, 1.5, 2.0, 1000.0),
    ]
    [line] = load.protocol_costs(cells)
    assert line.split("  ")[0] == "m, 2, threads 1"
    assert line.endswith("HTTP adds 0.50 ms to 1.00 ms")


def test_a_table_has_a_row_for_each_number_of_callers() -> None:
    cells = [
        load.Cell("m", peer, 1, callers, False, 1.0, 2.0, 1000.0)
        for peer in ("tessella", "onnxruntime")
        for callers in (1, 2)
    ]
    head, *rows = load.table(cells)
    assert head.split()[2:] == ["tessella", "1", "onnxruntime", "1"]
    assert [row.split("  ")[0] for row in rows] == ["m, 1", "m, 2"]
    assert all(row.count("1.00 / 2.00") == 2 for row in rows)
