"""The figures of ``bench.torch``, without PyTorch."""

from __future__ import annotations

from bench.torch import NETWORKS, TRAINED, Row, _summary


def test_ratios() -> None:
    row = Row(
        "vit",
        ms={"tessella": 2.0, "inductor": 3.0, "eager": 4.0},
        cold_s={"tessella": 2.0, "inductor": 8.0},
        second={"tessella": 0.004, "inductor": 0.5},
        step_ms={"tessella": 4.0, "eager": 3.0},
    )
    assert (row.ratio, row.cold, row.trained) == (1.5, 0.25, 0.75)
    text = _summary([row, Row("swin", failures={"tessella": "no"})])
    assert "1 of 1" in text
    assert "0.25 of Inductor's time" in text
    assert "second batch size: at most 0.004 of the first call's time" in text
    assert "geometric mean 0.75 of eager's speed" in text


def test_what_is_missing_has_no_ratio() -> None:
    row = Row("vit", ms={"eager": 4.0}, cold_s={"tessella": 1.0})
    assert (row.ratio, row.cold, row.trained) == (None, None, None)
    assert _summary([row]) == ""


def test_networks() -> None:
    assert len(NETWORKS) == 12
    assert set(TRAINED) <= set(NETWORKS)
