"""Properties that all benchmark commands share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.command import Command, write_figures

KNOWN = ("resnet18", "resnet50", "vgg19")


def parser() -> Command:
    made = Command("models", "Compares.")
    made.add_names("model", KNOWN)
    made.add_peers(["onnxruntime", "openvino"])
    made.add_repeat(20)
    return made


def test_beginnings_of_names_choose() -> None:
    assert parser().parse([]).names == list(KNOWN)
    assert parser().parse(["vgg", "resnet5"]).names == ["resnet50", "vgg19"]


def test_parts_of_names_choose() -> None:
    parts = Command("host", "Compares.")
    parts.add_names("case", KNOWN, str.__contains__)
    assert parts.parse(["net50"]).names == ["resnet50"]


def test_peers_are_all_or_those_that_are_named() -> None:
    assert parser().parse([]).peers == ["onnxruntime", "openvino"]
    assert parser().parse(["--peers", "openvino"]).peers == ["openvino"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["net50"], "no model 'net50'; there are resnet18, resnet50, vgg19"),
        (["--peers", "open"], "no peer 'open'; there are onnxruntime, openvino"),
        (["--repeat", "0"], "at least 1"),
    ],
)
def test_what_means_nothing_ends_the_command(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse(words)
    said = capsys.readouterr().err
    assert message in said
    assert "python -m bench.models" in said


def test_figures_are_written_with_their_machine(tmp_path: Path) -> None:
    write_figures(None, {"cores": 2}, rows=[])
    write_figures(tmp_path / "x.json", {"cores": 2}, rows=[{"ms": 1.5}])
    assert json.loads((tmp_path / "x.json").read_text()) == {
        "machine": {"cores": 2},
        "rows": [{"ms": 1.5}],
    }
