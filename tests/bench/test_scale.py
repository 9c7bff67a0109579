"""Predictions follow from made-up figures; one and two processes give figures."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench import scale
from bench.scale_model import ASSUMPTIONS, Layout, Prediction, ScaleFigures, layouts, predict

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
FIGURES = ScaleFigures(
    block_rows=1000,
    row_seconds=10e-6,
    row_seconds_of_two=11e-6,
    coordinator_seconds=1e-6,
    row_bytes=1000,
    start_seconds=2,
    one_process_bytes=50e6,
    further_process_bytes=20e6,
)
Out = pytest.CaptureFixture[str]


def predicted(
    layout: Layout, figures: ScaleFigures = FIGURES, rows: int = 10**9, contention: float = 0.1
) -> Prediction:
    return predict(figures, layout, rows=rows, link=1.25e9, contention=contention)


def test_rates_are_those_of_the_slowest_resource() -> None:
    found = [predicted(layout) for layout in layouts(64, 100)]
    assert [(round(each.rate), each.limit) for each in found] == [
        (100_000, "workers"),
        (181_818, "workers"),  # two, each 10 % slower
        (876_712, "workers"),  # 64, each 7.3 times as slow
        (87_671_233, "workers"),
        (1_000_000, "coordinator"),
    ]
    assert [each.machine_bytes / 1e6 for each in found] == [50, 70, 1310, 1310, 1310]


def test_without_contention_cores_add_up() -> None:
    _, two, machine, machines, _ = (predicted(each, contention=0) for each in layouts(64, 100))
    assert two.rate == pytest.approx(200_000)
    assert machine.rates["workers"] == pytest.approx(6_400_000)
    assert machine.limit == "coordinator"
    assert machines.rate == pytest.approx(100_000_000)


def test_rows_for_other_machines_pass_a_link() -> None:
    wide = replace(FIGURES, row_bytes=5000)
    *alone, shared = (predicted(layout, wide) for layout in layouts(64, 100))
    assert not any("link" in each.rates for each in alone)
    assert shared.limit == "link"
    assert shared.rate == pytest.approx(1.25e9 / 5000 / 0.99)


def test_a_job_takes_whole_blocks() -> None:
    machine = Layout("", 1, 4, 1)
    # one block keeps one of four workers busy, and five blocks keep one busy for two
    times = [predicted(machine, rows=rows, contention=0).job_seconds for rows in (1, 1000, 5000)]
    assert times == pytest.approx([2.01, 2.01, 2.02])
    slow = replace(FIGURES, coordinator_seconds=1e-3)
    assert predicted(machine, slow, rows=5000).job_seconds == pytest.approx(2 + 5)


@pytest.mark.parametrize("two, contention", [(9e-6, 0), (10e-6, 0), (12e-6, 0.2)])
def test_contention_is_never_negative(two: float, contention: float) -> None:
    figures = replace(FIGURES, row_seconds_of_two=two)
    assert figures.contention == pytest.approx(contention)


def test_the_page_has_the_assumptions() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [text for text in ASSUMPTIONS if text not in page] == []


def test_figures_of_an_earlier_run(tmp_path: Path, capsys: Out) -> None:
    file = tmp_path / "scale.json"
    file.write_text(json.dumps({"figures": asdict(FIGURES)}))
    words = ["--figures", str(file), "--cores", "8", "--machines", "3", "--job", "1000000"]
    assert scale.main(words) == 0
    head, columns, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("contention 10.0% for each further worker of a machine, 1,000 bytes")
    assert columns.endswith("s for 1e+06 rows")
    assert [row.split("  ")[0] for row in rows[:5]] == [each.name for each in layouts(8, 3)]
    assert rows[2].split()[2:] == ["8", "470,588", "800,000", "workers", "190", "4.1"]
    file.write_text("{}")
    with pytest.raises(SystemExit, match=r"scale\.json has no figures .* write it with --json"):
        scale.main(words)


def test_noise_is_told() -> None:
    turn = scale.Turn(1000.0, 1e-3, 1.0, 50_000_000, 100.0)
    calm = scale.ScaleRun([turn] * 3, [turn] * 3, [1e-6] * 3, 10)
    slower = replace(turn, rate=500.0)
    disturbed = replace(calm, two=[turn, slower, slower])
    assert [run.is_noisy() for run in (calm, disturbed)] == [False, True]
    assert [*disturbed.lines()][-1].startswith("Other processes disturb these figures")


@pytest.mark.slow
def test_processes_are_measured(tmp_path: Path, capsys: Out) -> None:
    file = tmp_path / "scale.json"
    words = ["--rows", "64", "--blocks", "2", "--repeat", "1", "--json", str(file)]
    assert scale.main(words) == 0
    figures = scale.read_figures(file)
    assert "contention" in capsys.readouterr().out
    assert figures.block_rows == 64
    assert min(figures.row_seconds, figures.row_seconds_of_two, figures.coordinator_seconds) > 0
    assert 0 < figures.start_seconds < 300
    # a row has 64 floats, and its result 10
    assert 74 * 4 < figures.row_bytes < 74 * 4 + 100
    assert 5e6 < figures.further_process_bytes < figures.one_process_bytes + 20e6


def test_a_worker_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a worker ended before it had run its blocks"):
        scale.run_workers(tmp_path / "missing.tsl", tmp_path / "missing", 1, 1, workers=1)
