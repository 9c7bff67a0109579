"""What the commands have in common."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.command import check_names, chosen, new_parser, write_figures

KNOWN = ("resnet18", "resnet50", "vgg19")


def test_beginnings_of_names_choose() -> None:
    assert chosen(KNOWN, []) == list(KNOWN)
    assert chosen(KNOWN, ["vgg", "resnet5"]) == ["resnet50", "vgg19"]
    assert chosen(KNOWN, ["net50"]) == []
    assert chosen(KNOWN, ["net50"], str.__contains__) == ["resnet50"]


def test_what_means_nothing_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    parser = new_parser("models", "Compares.")
    check_names(parser, "model", ["resnet"], KNOWN, str.startswith)
    with pytest.raises(SystemExit):
        check_names(parser, "model", ["resnet"], KNOWN)
    said = capsys.readouterr().err
    assert "no model 'resnet'; there are resnet18, resnet50, vgg19" in said
    assert "python -m bench.models" in said


def test_figures_are_written_with_their_machine(tmp_path: Path) -> None:
    write_figures(None, {"cpus": 2}, rows=[])
    write_figures(tmp_path / "x.json", {"cpus": 2}, rows=[{"ms": 1.5}])
    assert json.loads((tmp_path / "x.json").read_text()) == {
        "machine": {"cpus": 2},
        "rows": [{"ms": 1.5}],
    }
