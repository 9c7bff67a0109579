"""The benchmark of kernels: figures that follow from others, and a run of a tiny kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import kernels
from bench.cases import Case, Workload, convolution, matmul
from bench.kernels import GOALS, Bench, Goal, Row, main
from tessella.driver.tune import calibrate
from tessella.tools import measure

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr(kernels, "TURN", 0.0)
    monkeypatch.setattr(calibrate, "_MEMORY", (1 << 20, 1 << 20))


def row(**figures: object) -> Row:
    """2 GFLOP on 3 MB read and 1 MB written: in 20 ms, against 25 and 30."""
    result = Row("matmul", "r", Workload(2 * 10**9, 3 * 10**6, 10**6))
    result.ms = {"onnxruntime": 25.0, "tessella": 20.0, "openvino": 30.0}
    result.peak_gflops, result.read_gbs, result.copy_gbs = 125.0, 2.0, 1.0
    for name, value in figures.items():
        setattr(result, name, value)
    return result


def test_ratios_are_to_the_faster_peer() -> None:
    assert row().ratio == 1.25
    assert row(ms={"tessella": 20.0}).ratio is None
    assert row(ms={"openvino": 20.0}).ratio is None


def test_shares_of_roofs() -> None:
    # 100 GFLOP/s of 125
    assert row().of_peak == pytest.approx(0.8)
    assert row(workload=Workload(0, 1, 1)).of_peak is None
    # 1 MB is copied, which moves 2 MB at 1 GB/s, and 2 MB are read at 2 GB/s: 3 ms
    assert row().of_bandwidth == pytest.approx(3 / 20)
    written = row(workload=Workload(0, 10**6, 3 * 10**6))
    assert written.of_bandwidth == pytest.approx(3 / 20)


def test_what_is_missed_is_said_by_how_much() -> None:
    assert row().missed(Goal(each=1.25, peak=0.8)) == []
    assert row().missed(Goal(each=1.3, peak=0.95)) == ["ratio 1.25 < 1.30", "peak 0.80 < 0.95"]
    assert row().missed(Goal(bandwidth=0.85)) == ["bandwidth 0.15 < 0.85"]
    assert row(ms={}).missed(Goal(each=1.0, mean=2.0)) == ["no ratio"]


def test_goals_are_those_of_all_groups() -> None:
    assert GOALS.keys() == kernels.GROUPS.keys()


def test_a_tiny_kernel_is_measured_on_all_peers(tmp_path: Path, capsys: Out) -> None:
    file = tmp_path / "results.json"
    quick = ["--repeat", "1", "--compiles", "1", "--peers", "onnxruntime,tessella"]
    assert main(["odd", "--case", "7x7x7", *quick, "--json", str(file)]) == 0
    output = capsys.readouterr().out
    assert "7x7x7" in output
    assert "spilled vector registers in inner loops: none" in output
    document = json.loads(file.read_text())
    (found,) = document["rows"]
    assert found["workload"] == {"flops": 686, "read": 392, "written": 196}
    assert found["ms"].keys() == {"onnxruntime", "tessella"}
    assert found["error"]["tessella"] < 1e-5
    assert found["spilled"] == 0
    assert found["compile_ms"] > 0
    assert min(found["peak_gflops"], found["read_gbs"], found["copy_gbs"], found["ratio"]) > 0
    assert document["machine"]["processor"]


def test_a_cold_kernel_is_measured() -> None:
    case = Case("gemv", "cold", lambda: matmul(1, 8, 8), cold=True)
    found = Bench(["tessella"], threads=1, repeat=1, compiles=1).measure(case)
    assert found.ms["tessella"] > 0
    assert found.ratio is None
    assert found.missed(GOALS["gemv"])[0] == "no ratio"


def test_a_peer_that_fails_is_named(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no way")

    monkeypatch.setitem(kernels.PEERS, "openvino", fail)
    monkeypatch.setattr(kernels, "available", lambda names: names)
    quick = ["--repeat", "1", "--compiles", "1", "--peers", "tessella,openvino"]
    assert main(["odd", "--case", "7x7x7", *quick]) == 1
    assert "openvino failed: ValueError: no way" in capsys.readouterr().out


def test_compiling_is_measured_and_errors_are_against_the_first_peer() -> None:
    case = Case(
        "resnet50", "small", lambda: convolution((1, 5, 6, 6), (7, 5, 3, 3), pads=[1, 1, 1, 1])
    )
    found = Bench(["onnxruntime", "tessella"], 1, repeat=1, compiles=2).measure(case)
    assert found.error["onnxruntime"] == 0.0
    assert 0 <= found.error["tessella"] < 1e-5
    assert found.compile_ms is not None
    assert found.spilled is not None


@pytest.mark.parametrize("arguments", [["nothing"], ["--peers", "nobody"]])
def test_unknown_names_are_refused(arguments: list[str], capsys: Out) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "there are" in capsys.readouterr().err
