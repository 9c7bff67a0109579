"""Trained networks lose no more in narrow numbers than docs/quantize.md says."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from bench import accuracy
from bench.accuracy import PRECISIONS, TASKS, Row, measure, table

PAGE = Path(accuracy.__file__).parents[1] / "docs" / "quantize.md"

SLACK = 0.002
"""Rounding moves values to other quanta from machine to machine: as a share, and in bits."""

QUICK = {("language", "f32"), ("digits", "bf16"), ("digits", "int8"), ("digits", "int8, dynamic")}


def documented() -> dict[tuple[str, str], Row]:
    """The figures of the table."""
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| | digits: right"))
    networks = re.findall(r"(\w+): right", lines[start])
    found: dict[tuple[str, str], Row] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        precision, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for i, network in enumerate(networks):
            right, bits = cells[2 * i : 2 * i + 2]
            share = float(right.removesuffix("%")) / 100
            found[network, precision] = Row(network, precision, share, float(bits))
    return found


@pytest.mark.parametrize(
    "network, precision",
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in itertools.product(TASKS, PRECISIONS)
    ],
)
def test_no_precision_loses_more_than_is_documented(network: str, precision: str) -> None:
    expected, found = documented()[network, precision], measure(network, precision)
    assert found.right >= expected.right - SLACK
    assert found.bits <= expected.bits + SLACK


def test_the_table_has_all_that_is_measured() -> None:
    assert documented().keys() == {(n, p) for n in TASKS for p in PRECISIONS}


def test_the_networks_have_learnt() -> None:
    rows = documented()
    assert rows["digits", "f32"].right > 0.95
    # a model that knows how often each character occurs, and no more, takes some 4.5 bits
    assert rows["language", "f32"].bits < 3


def test_a_table_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [Row("digits", "f32", 0.9969, 0.0161), Row("language", "f32", 0.51, 2.25)]
    (tmp_path / "page.md").write_text("\n".join(["text", *table(rows), "", "| more |"]))
    monkeypatch.setattr("tests.bench.test_accuracy.PAGE", tmp_path / "page.md")
    assert list(documented().values()) == rows


def test_bits_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal chances for each of ten digits are log2(10) bits."""

    class Same:
        def run(self, _: None, sample: dict[str, object]) -> list[object]:
            return [np.zeros((1, 10), np.float32)]

    monkeypatch.setattr(accuracy, "PRECISIONS", {"none": lambda _: Same()})
    assert measure("digits", "none").bits == pytest.approx(np.log2(10))
