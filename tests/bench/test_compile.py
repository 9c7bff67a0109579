"""The benchmark of compile times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import compile as bench_compile
from bench.compile import Run, compare, main, run_once


def test_medians_of_processes_cold_and_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra process fills the cache first, and does not count."""
    calls: list[tuple[str, bool]] = []

    def run(peer: str, model: Path, feeds: Path, cache: Path | None) -> Run:
        assert model.exists()
        assert feeds.exists()
        calls.append((peer, cache is not None))
        if peer == "openvino" and cache is not None:
            raise RuntimeError("no")
        return Run(float(len(calls)), 2.0, 3_000_000)

    monkeypatch.setattr(bench_compile, "run_once", run)
    rows = compare("squeezenet", ["onnxruntime", "tessella", "openvino"], 3)
    found = {(row.peer, row.cache): row for row in rows}
    assert list(found) == [
        *(("onnxruntime", "cold"), ("tessella", "cold"), ("openvino", "cold")),
        *(("tessella", "warm"), ("openvino", "warm")),
    ]
    assert calls.count(("tessella", True)) == 4
    assert calls.count(("tessella", False)) == 3
    assert found["tessella", "warm"].seconds == calls.index(("tessella", True)) + 1 + 2 * 4 + 1
    assert found["tessella", "cold"].peak_mb == 3
    assert found["openvino", "warm"].failure == "RuntimeError: no"
    assert found["openvino", "cold"].failure is None


def test_a_process_that_fails(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nonsense")
    np.savez(tmp_path / "feeds.npz", x=np.zeros(1))
    with pytest.raises(RuntimeError, match="do not parse"):
        run_once("tessella", tmp_path / "m.onnx", tmp_path / "feeds.npz", None)


@pytest.mark.parametrize("arguments", [["nothing"], ["--peers", "abacus"], ["--repeat", "0"]])
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error" in capsys.readouterr().err
