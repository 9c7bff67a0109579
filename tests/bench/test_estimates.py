"""Estimates against times: how kernels are told apart, and which are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import estimates
from bench.estimates import Kernel


@pytest.mark.parametrize(
    "kernel, name",
    [("conv_relu_12", "conv_relu"), ("winograd4_relu_17.2", "winograd4_relu"), ("k_0", "k")],
)
def test_kernels_of_the_same_ops_are_a_class(kernel: str, name: str) -> None:
    assert Kernel("m", kernel, 1, 1.0, 1.0, 1.0).name == name


@pytest.mark.parametrize(
    "measured, estimated, share, is_outlier",
    [
        (1.0, 1.9, 0.5, False),
        (1.0, 2.1, 0.5, True),
        (2.1, 1.0, 0.5, True),
        (1.0, 2.1, 0.009, False),
    ],
)
def test_an_outlier(measured: float, estimated: float, share: float, is_outlier: bool) -> None:
    assert Kernel("m", "k_0", 1, measured, estimated, share).is_outlier == is_outlier


@pytest.mark.slow
def test_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    estimates.main(["squeezenet", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert {row["model"] for row in rows} == {"squeezenet"}
    assert all(row["ratio"] > 0 for row in rows)
    assert sum(row["share"] for row in rows) < 1.2
    assert "conv_relu" in capsys.readouterr().out
