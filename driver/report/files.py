"""Files of reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from tessella.driver.report.data import Report
from tessella.runtime.schema import VERSION
from tessella.support.errors import OptionError

MOST_BYTES = 256 << 20
"""The most bytes of a report's file."""


def read_report(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the report in a JSON file. Raises OptionError if the file has none, or one of another
    version."""
    where = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        found = json.loads(text) if len(text) <= MOST_BYTES else None
    except OSError as error:
        raise OptionError(f"cannot read the report: {error.strerror}", where=where) from error
    except (ValueError, RecursionError) as error:
        raise OptionError(
            f"the report is not JSON: {error}",
            where=where,
            expected="a file that `tessella report --json` wrote",
        ) from error
    return _checked(found, where)


def _checked(found: object, where: str) -> Mapping[str, Any]:
    names = [each.name for each in fields(Report)]
    report = cast(Mapping[str, Any], found) if isinstance(found, dict) else dict[str, Any]()
    missing = [name for name in names if name not in report]
    if missing:
        raise OptionError(
            "the file has no report",
            where=where,
            expected="a file that `tessella report --json` wrote",
            found=f"no {missing[0]!r}",
        )
    model: object = report["model"]
    if not (isinstance(model, dict) and isinstance(cast(Any, model).get("name"), str)):
        raise OptionError("the report is damaged: its model has no name", where=where)
    if report["version"] != VERSION:
        raise OptionError(
            "the report has another version",
            where=where,
            expected=str(VERSION),
            found=repr(report["version"]),
            hint="write it again with this version of tessella",
        )
    return report
