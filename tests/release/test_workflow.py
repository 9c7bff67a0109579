"""The files in `.github` parse, and the commands and files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from release.packages import ROOT, project

GITHUB = ROOT / ".github"
FILES = sorted(GITHUB.rglob("*.yml"))
RELEASE = GITHUB / "workflows" / "release.yml"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_commands_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = set(re.findall(r"run: make ([a-z-]+)", RELEASE.read_text()))
    assert wanted == {"release", "fresh"}
    assert wanted <= targets


def test_only_the_job_that_publishes_may_write() -> None:
    workflow = yaml.safe_load(RELEASE.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name for name, job in workflow["jobs"].items() if "permissions" in job}
    assert writing == {"publish"}
    publish = workflow["jobs"]["publish"]
    assert publish["if"] == "github.ref_type == 'tag'"
    assert publish["needs"] == ["build", "fresh"]
    assert publish["permissions"]["id-token"] == "write"
    assert "secrets." not in RELEASE.read_text()


def test_the_oldest_python_is_tried() -> None:
    fresh = yaml.safe_load(RELEASE.read_text())["jobs"]["fresh"]
    assert project()["requires-python"] == f">={fresh['strategy']['matrix']['python'][0]}"


def test_templates_ask_for_what_exists() -> None:
    text = "".join(path.read_text() for path in GITHUB.rglob("*") if path.is_file())
    for name in re.findall(r"`tessella (\w+)", text):
        assert (ROOT / "tools" / "commands" / f"{name}.py").is_file(), name
    for name in re.findall(r"\b([A-Z]+\.md|docs/\w+\.md)\b", text):
        assert (ROOT / name).is_file(), name
