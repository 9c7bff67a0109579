"""Tables of the figures that benchmarks write."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import arrays, calls, kernels, models, narrow, ops, report
from bench import compile as compiling
from bench.cases import Workload
from bench.report import FORMS, PAGE, ReportError, written

FIGURES = PAGE.with_name("figures.md")
"""The page of figures that are kept by hand, until a file of results replaces them."""

MACHINE = {"processor": "a processor", "cores": 2, "versions": {"numpy": "2.4"}}


def write(folder: Path, name: str, rows: Sequence[Any]) -> None:
    figures = {"machine": MACHINE, "rows": [asdict(row) for row in rows]}
    (folder / f"{name}.json").write_text(json.dumps(figures))


def test_a_table_has_a_column_for_each_runtime(tmp_path: Path) -> None:
    rows = [
        models.Row("vit", "tessella", 1, 80.0, median_ms=2.0),
        models.Row("vit", "onnxruntime", 1, 80.0, median_ms=3.0),
        models.Row("vit", "openvino", 1, 80.0, failure="it is not there"),
        models.Row("swin", "tessella", 1, 80.0, median_ms=0.01),
        models.Row("swin", "onnxruntime", 1, 80.0, median_ms=0.06),
        models.Row("swin", "openvino", 1, 80.0, median_ms=123.4),
    ]
    write(tmp_path, "models-1", rows)
    assert report.report(tmp_path).splitlines() == [
        "### `models-1`",
        "",
        "`bench.models`, milliseconds of a call; a processor, 2 cores, numpy 2.4.",
        "",
        "| | onnxruntime | openvino | tessella | ratio |",
        "|---|---|---|---|---|",
        "| vit | 3.00 |  | 2.00 | 1.50 |",
        "| swin | 0.0600 | 123 | 0.0100 | 6.00 |",
        "",
        "The geometric mean of the ratios is 3.00.",
    ]


ROWS: dict[str, Any] = {
    "models": models.Row("vit", "tessella", 1, 80.0, median_ms=2.0),
    "narrow": narrow.Row("int8 vit", 1, "tessella", median_ms=2.0),
    "compile": compiling.Row("vit", "tessella", "cold", seconds=2.0),
    "arrays": arrays.Row("vit", {"tessella": 2.0}),
    "kernels": kernels.Row("rows", "vit", Workload(1, 2, 3), {"tessella": 2.0}),
    "ops": ops.Row("vit", "l2", 1, {"tessella": 2.0}),
    "calls": calls.Row("vit", "fixed", {"model.run": 2.0}),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_fits_the_rows_of_its_benchmark(name: str, tmp_path: Path) -> None:
    write(tmp_path, name, [ROWS[name]])
    text = report.report(tmp_path)
    assert re.search(r"^\| .*vit.* 2\.00 \|", text, re.MULTILINE)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("music", "{}", "no benchmark 'music' has tables"),
        ("models", "{", "not the figures of bench.models"),
        ("models", "[]", "not the figures of bench.models"),
        ("models", '{"machine": {}, "rows": [{}]}', "not the figures of bench.models: KeyError"),
    ],
)
def test_a_wrong_file_is_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(ReportError, match=re.escape(message)) as caught:
        report.report(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_the_page_has_the_tables_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, report.report()) == page, "run python -m bench.report --write"


def test_the_page_lists_all_benchmarks() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed = {"models", *re.findall(r"^\| `make bench BENCH=(\w+)", page, re.MULTILINE)}
    modules = Path(report.__file__).parent.glob("*.py")
    found = {p.stem for p in modules if re.search(r"= Command\(", p.read_text(encoding="utf-8"))}
    assert found
    assert found <= listed


def test_a_page_without_a_place_for_tables() -> None:
    with pytest.raises(ReportError, match="lacks the comments"):
        written("a page", "tables")


def test_no_figures_are_kept_by_hand_beside_results() -> None:
    page = FIGURES.read_text(encoding="utf-8")
    by_hand = set(re.findall(r"^<!-- until: (\w+) -->$", page, re.MULTILINE))
    assert by_hand
    measured = {file.stem.partition("-")[0] for file in report.RESULTS.glob("*.json")}
    assert not by_hand & measured, "remove these tables from docs/figures.md"
