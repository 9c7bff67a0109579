"""Explanations as text, and as HTML for notebooks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tessella.runtime.explain_native import RUNS
from tessella.runtime.explain_types import (
    Conversion,
    Fusion,
    OpEntry,
    Pick,
    PythonStep,
    RefusedFusion,
    Regret,
    Rejected,
    Threads,
    duration,
)
from tessella.support.columns import aligned

OPS = (
    *("op", "node", "runs", "kernel", "place", "storage", "arithmetic"),
    *("cost", "group", "fallback", "runner-up"),
)
CONVERSIONS = ("op", "value", "from", "to", "bytes", "cost", "for")
FUSIONS = ("op", "node", "pattern", "consumed")
REFUSED = (*FUSIONS, "reason")
REGRETS = ("op", "node", "kernel", "sizes", "regret", "fastest")
FALLBACKS = ("op", "node", "kernel", "place", "fallback")
STEPS = ("op", "node", "runs")
TIME = ("op", "count", "cost", "share")
Rows = list[tuple[str, ...]]


def headline(pick: Pick | None) -> str:
    """Return one line that says how the kernels were picked."""
    if pick is None:
        return ""
    exact = {True: ", exact", False: ", not known to be the best", None: ""}[pick["exact"]]
    places = ", ".join(pick["places"])
    times = f", with the times in {pick['database']}" if pick["database"] else ""
    widened = "".join(f"; {name} is widened to be multiplied" for name in pick["widened"])
    how = f"kernels picked by {pick['strategy']}{exact}, for {pick['target']}"
    return f"{how}, at {places}{times}{widened}"


def headline_of_values(values: Sequence[str]) -> str:
    """Return one line with the values of inputs that the program is specialised on."""
    return f"made for {'; '.join(values)}: shapes depend on this" if values else ""


def table(
    ops: Sequence[OpEntry],
    conversions: Sequence[Conversion],
    fusions: Sequence[Fusion],
    refused: Sequence[RefusedFusion],
    regrets: Sequence[Regret],
    pick: Pick | None,
    *,
    why: bool,
) -> list[str]:
    """Return an explanation as lines of text. With ``why``, they include the reasons against other
    candidates of each op."""
    table = list(aligned([OPS, *map(_op_row, ops)]))
    lines = [table[0]]
    for entry, line in zip(ops, table[1:], strict=True):
        reasons = _reasons(entry["rejected"]) if why else ()
        lines += [line, *(f"    not {text}" for text in reasons)]
    for title, header, rows in _further(ops, conversions, fusions, refused, regrets):
        lines += ["", f"{title}:", *aligned([header, *rows])]
    head = headline(pick)
    return [*lines, "", head] if head else lines


def thread_lines(threads: Threads) -> Iterator[str]:
    """Yield lines that say how threads divide the kernels, and where they wait."""
    calls, divided, barriers = threads["calls"], threads["divided"], threads["barriers"]
    yield f"threads divide {divided} of {calls} kernels, with {len(barriers)} barriers"
    for barrier in barriers:
        nodes = f" ({', '.join(barrier['nodes'])})" if barrier["nodes"] else ""
        times = f", {barrier['times']} times" if barrier["times"] > 1 else ""
        yield f"    before {barrier['before']}{nodes}{times}"


def step_lines(steps: Sequence[PythonStep]) -> list[str]:
    """Return lines for the steps after a graph break."""
    rows = [(step["op"], step["node"], RUNS[step["native"]]) for step in steps]
    return ["", "steps after the graph break:", *aligned([STEPS, *rows])] if rows else []


def page(
    ops: Sequence[OpEntry],
    conversions: Sequence[Conversion],
    fusions: Sequence[Fusion],
    refused: Sequence[RefusedFusion],
    regrets: Sequence[Regret],
    pick: Pick | None,
    notes: Sequence[str],
) -> str:
    """Return an explanation as HTML, after the ``notes``. Each op's row unfolds the reasons against
    other candidates."""
    parts = [f"<p>{escape(text)}</p>" for text in (*notes, headline(pick)) if text]
    rows = [_html_cells(_op_row(entry), list(_reasons(entry["rejected"]))) for entry in ops]
    parts.append(_html_table(OPS, rows))
    for title, header, listed in _further(ops, conversions, fusions, refused, regrets):
        cells = [_html_cells(row) for row in listed]
        parts.append(f"<h4>{escape(title)}</h4>{_html_table(header, cells)}")
    return "".join(parts)


def _further(
    ops: Sequence[OpEntry],
    conversions: Sequence[Conversion],
    fusions: Sequence[Fusion],
    refused: Sequence[RefusedFusion],
    regrets: Sequence[Regret],
) -> Iterator[tuple[str, tuple[str, ...], Rows]]:
    """Yield the title, the header and the rows of each further table of an explanation that has
    rows: conversions, fusions, refused fusions, regrets, fallbacks and estimated time."""
    if conversions:
        yield "conversions", CONVERSIONS, [_conversion_row(c) for c in conversions]
    if fusions:
        yield "fusions", FUSIONS, list(map(_fusion_row, fusions))
    if refused:
        rows = [(*_fusion_row(each), each["reason"]) for each in refused]
        yield "fusions that were not made", REFUSED, rows
    if regrets:
        title = "kernels of least regret that are slower than others for some sizes"
        yield title, REGRETS, list(map(_regret_row, regrets))
    fallbacks = [e for e in ops if e["fallback"]]
    if fallbacks:
        rows = [
            (e["op"], e["node"], e["kernel"], e["place"], e["fallback"] or "") for e in fallbacks
        ]
        counts = Counter(row[-1] for row in rows)
        listed = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        yield f"fallbacks ({listed})", FALLBACKS, rows
    times = _time_rows(ops, conversions)
    if times:
        yield "estimated time", TIME, times


def _fusion_row(fusion: Fusion) -> tuple[str, ...]:
    return fusion["op"], fusion["node"], fusion["pattern"], " ".join(fusion["consumed"])


def _regret_row(r: Regret) -> tuple[str, ...]:
    found = r["op"], r["node"], r["kernel"], r["sizes"]
    return (*found, f"{r['regret']:.3g}", r["fastest"])


def _time_rows(ops: Sequence[OpEntry], conversions: Sequence[Conversion]) -> Rows:
    """Return a row for each kind of op, longest first, and a row for all kinds: its name, count,
    estimated time and share of the time."""
    kinds: dict[str, list[float]] = {}
    for e in ops:
        if e["estimate"] is not None:
            kinds.setdefault(e["op"], []).append(e["estimate"] - e["saved"])
    for c in conversions:
        kinds.setdefault(c["op"], []).append(c["estimate"])
    total = math.fsum(cost for costs in kinds.values() for cost in costs)
    longest = sorted(kinds.items(), key=lambda kind: -math.fsum(kind[1]))
    rows = [(kind, len(costs), math.fsum(costs)) for kind, costs in longest]
    rows += [("all", sum(map(len, kinds.values())), total)] if kinds else []
    return [
        (kind, str(count), duration(seconds), f"{seconds / (total or 1):.0%}")
        for kind, count, seconds in rows
    ]


def _op_row(e: OpEntry) -> tuple[str, ...]:
    other = e["runner_up"]
    second = (
        f"{other['kernel']} at {other['place']}, {duration(other['estimate'])}" if other else ""
    )
    picked = (e["op"], e["node"], RUNS[e["native"]], e["kernel"], e["place"])
    elements = e["storage"], e["arithmetic"]
    cost = duration(e["estimate"]) + (" (measured)" if e["measured"] else "")
    return (*picked, *elements, cost, str(e["group"]), e["fallback"] or "", second)


def _conversion_row(c: Conversion) -> tuple[str, ...]:
    ends = c["op"], c["value"], c["source"], c["target"]
    return (*ends, str(c["bytes"]), duration(c["estimate"]), " ".join(c["readers"]))


def _reasons(rejected: Sequence[Rejected]) -> Iterator[str]:
    """Yield a line for each reason against candidates, with the kernels and places that it
    excludes."""
    by_reason: dict[str, list[str]] = {}
    for r in rejected:
        by_reason.setdefault(r["reason"], []).append(f"{r['kernel']} at {r['place']}")
    yield from (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _html_cells(row: Iterable[str], details: Sequence[str] = ()) -> str:
    cells = [f"<td>{escape(cell)}</td>" for cell in row]
    if details:
        items = "".join(f"<li>{escape(text)}</li>" for text in details)
        listed = f"<details><summary>{len(details)} rejected</summary><ul>{items}</ul></details>"
        cells[-1] = cells[-1].replace("</td>", f"{listed}</td>")
    return "".join(cells)


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts as HTML."""
    return _html_table(header, [_html_cells(row) for row in rows])


def _html_table(header: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
