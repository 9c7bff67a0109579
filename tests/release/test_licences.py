"""The licences of dependencies, and the bill of materials."""

from __future__ import annotations

import json
import re
from email.message import Message
from importlib.metadata import Distribution
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tessella
from release import licences, sbom
from release.licences import LicenceError, is_accepted, licence
from release.packages import ROOT, MissingError, extras, installed, requirements

ROW = re.compile(r"^\| (\S+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
ROWS = {name: (terms, by) for name, terms, by in ROW.findall(PAGE) if name != "package"}
VENDOR = ROOT / "driver" / "report" / "static" / "vendor"


@pytest.mark.parametrize("extra", ["", *extras()])
def test_the_page_has_what_is_installed(extra: str) -> None:
    for requirement in requirements(extra):
        assert requirement.name.replace("_", "-") in ROWS
    try:
        found = installed(requirements(extra))
    except MissingError as error:
        pytest.skip(str(error))
    for name, package in found.items():
        terms, by = ROWS[name]
        assert terms == licence(package), "run python -m release.licences > docs/licences.md"
        assert by == "tessella" or f"`{extra}`" in by


def test_all_licences_are_accepted() -> None:
    assert all(is_accepted(terms) for terms, _ in ROWS.values())


@pytest.mark.parametrize(
    "terms, accepted",
    [
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only AND (MIT OR ISC)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
    ],
)
def test_one_alternative_is_enough(terms: str, accepted: bool) -> None:
    assert is_accepted(terms) == accepted


def test_vendored_libraries_are_listed() -> None:
    short = {name.rpartition("/")[2]: row for name, row in licences.VENDORED.items()}
    assert {path.name.partition(".")[0] for path in VENDOR.iterdir()} == {*short}
    for name, (version, terms) in short.items():
        assert version in (VENDOR / f"{name}.min.js").read_text(encoding="utf-8")
        assert f"{name} | {terms} |" in PAGE


def package(**fields: str) -> Distribution:
    metadata = Message()
    for name, value in fields.items():
        metadata[name.replace("_", "-")] = value
    return cast(Distribution, SimpleNamespace(name="p", version="1", metadata=metadata))


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"License_Expression": "MIT OR (0BSD AND Zlib)"}, "MIT OR (0BSD AND Zlib)"),
        ({"License": "a text", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "Apache 2.0"}, "Apache-2.0"),
    ],
)
def test_metadata_of_all_ages(fields: dict[str, str], expected: str) -> None:
    assert licence(package(**fields)) == expected


@pytest.mark.parametrize("terms", ["GPL-3.0-only", "MIT AND Proprietary", ""])
def test_other_licences_are_refused(terms: str) -> None:
    with pytest.raises(LicenceError, match="none of"):
        licence(package(License_Expression=terms))


def test_the_bill_lists_versions_and_licences() -> None:
    pytest.importorskip("cyclonedx")
    needed = installed(requirements())
    text = sbom.bill(needed, frozenset({"numpy"}), 1_700_000_000)
    assert sbom.bill(needed, frozenset({"numpy"}), 1_700_000_000) == text
    bill: Any = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == tessella.__version__
    assert bill["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["numpy"]["purl"] == f"pkg:pypi/numpy@{needed['numpy'].version}"
    assert (parts["numpy"]["scope"], parts["xdsl"]["scope"]) == ("required", "optional")
    assert parts["ordered-set"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert {*parts} >= {*needed, "d3"}
