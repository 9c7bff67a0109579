"""Tables of the figures in `bench/results/`, which benchmarks write with ``--json``.

    python -m bench.models --threads 2 --json bench/results/models-2.json
    python -m bench.report             # print the tables
    python -m bench.report --write     # put them into docs/performance.md

A file is named after its benchmark; what follows a hyphen tells runs of one benchmark apart. The
tables stand between two comments of the page.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessella.tools.measure import geometric_mean

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
OURS = "tessella"

_SECTION = re.compile(
    r"(?P<begin><!-- python -m bench.report --write -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
_SHOWN = ("python", "onnxruntime", "openvino", "ncnn", "numpy", "jax", "numba")
"""The packages with a version in the heading of a table."""


class ReportError(Exception):
    """A file of results or a page that the report cannot read."""


@dataclass(frozen=True)
class Form:
    """How rows of a benchmark's results become lines of a table."""

    unit: str
    line: Sequence[str]
    """The fields that identify a line."""
    value: str
    """The field that contains a figure, or figures by column."""
    column: Sequence[str] = ()
    """The fields that identify a column; if empty, figures are by column."""


FORMS: Mapping[str, Form] = {
    "models": Form("milliseconds of a call", ("model",), "median_ms", ("peer",)),
    "narrow": Form("milliseconds of a call", ("case",), "median_ms", ("peer",)),
    "compile": Form("seconds to the first answer", ("model",), "seconds", ("peer", "cache")),
    "arrays": Form("milliseconds of a call", ("name",), "ms"),
    "kernels": Form("milliseconds of a call", ("group", "name"), "ms"),
    "ops": Form("milliseconds of a call", ("name", "size"), "ms"),
    "calls": Form("microseconds of a call", ("model", "sizes"), "us"),
}
"""The form of each benchmark's tables."""


@dataclass
class Table:
    """Figures by line and column, in the order in which they were measured."""

    lines: dict[str, dict[str, float | None]] = field(
        default_factory=dict[str, dict[str, float | None]]
    )

    def add(self, line: str, column: str, value: float | None) -> None:
        """Add a figure; None if the measurement failed."""
        self.lines.setdefault(line, {})[column] = value

    @property
    def columns(self) -> list[str]:
        """Return the columns, tessella's last."""
        found = dict.fromkeys(name for line in self.lines.values() for name in line)
        return sorted(found, key=lambda name: name == OURS)

    def ratio(self, line: str) -> float | None:
        """The figure of the fastest other column over that of tessella."""
        figures = self.lines[line]
        others = [x for name, x in figures.items() if name != OURS and x is not None]
        ours = figures.get(OURS)
        return min(others) / ours if others and ours else None

    def markdown(self) -> Iterator[str]:
        """The lines of the table, and the geometric mean of its ratios."""
        columns, compares = self.columns, OURS in self.columns
        yield "| ".join(["", "", *(f"{c} " for c in columns), *["ratio "] * compares]) + "|"
        yield "|---" * (1 + len(columns) + compares) + "|"
        ratios = {line: self.ratio(line) for line in self.lines}
        for line, figures in self.lines.items():
            cells = [_shown(figures.get(column)) for column in columns]
            cells += ["" if (r := ratios[line]) is None else f"{r:.2f}"] * compares
            yield f"| {' | '.join([line, *cells])} |"
        known = [ratio for ratio in ratios.values() if ratio is not None]
        if known:
            yield ""
            yield f"The geometric mean of the ratios is {geometric_mean(known):.2f}."


def _shown(value: float | None) -> str:
    """Three digits."""
    if value is None:
        return ""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def table_of(form: Form, document: Mapping[str, Any]) -> Table:
    """The figures of a file. Raises KeyError for a file of another form."""
    table = Table()
    for row in document["rows"]:
        line = ", ".join(str(row[name]) for name in form.line)
        if form.column:
            table.add(line, ", ".join(str(row[name]) for name in form.column), row[form.value])
        else:
            for column, value in row[form.value].items():
                table.add(line, column, value)
    return table


def section(file: Path) -> Iterator[str]:
    """The lines about a file. Raises ReportError."""
    name = file.stem.partition("-")[0]
    if name not in FORMS:
        raise ReportError(f"{file}: no benchmark {name!r} has tables; there are {', '.join(FORMS)}")
    form = FORMS[name]
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        machine, table = document["machine"], table_of(form, document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{file}: not the figures of bench.{name}: {error!r}") from error
    where = ", ".join(_facts(machine))
    yield f"### `{file.stem}`"
    yield ""
    yield f"`bench.{name}`, {form.unit}; {where}."
    yield ""
    yield from table.markdown()
    yield ""


def _facts(machine: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts about a machine that the heading of a table states."""
    yield f"{machine['processor']}, {machine['cores']} cores"
    versions = machine["versions"]
    yield from (f"{name} {versions[name]}" for name in _SHOWN if name in versions)


def report(results: Path = RESULTS) -> str:
    """The tables of all files. Raises ReportError."""
    files = sorted(results.glob("*.json"))
    if not files:
        return "`bench/results/` has no figures yet.\n"
    return "\n".join(line for file in files for line in section(file))


def written(page: str, tables: str) -> str:
    """The page with other tables. Raises ReportError if it has no place for them."""
    if not _SECTION.search(page):
        raise ReportError(f"{PAGE.name} lacks the comments around the tables")
    return _SECTION.sub(lambda found: f"{found['begin']}\n{tables}\n{found['end']}", page)


def main(arguments: Sequence[str]) -> int:
    """Print the tables, or write them; 1 if that cannot be."""
    try:
        tables = report()
        if list(arguments) == ["--write"]:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(written(page, tables), encoding="utf-8")
        else:
            print(tables, end="")
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
