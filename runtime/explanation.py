"""The explanation of a program, which `explain` returns for a compiled or loaded model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tessella.runtime.explain_native import Coverage, coverage
from tessella.runtime.explain_table import (
    headline_of_values,
    page,
    step_lines,
    table,
    thread_lines,
)
from tessella.runtime.explain_types import (
    Conversion,
    Fusion,
    OpEntry,
    Pick,
    PythonStep,
    RefusedFusion,
    Regret,
    Threads,
)
from tessella.runtime.schema import VERSION


@dataclass(frozen=True)
class Explanation:
    """A description of how a program runs: its ops with their kernels, its conversions, its fusions
    and its threads. Notebooks show it as a table."""

    ops: list[OpEntry]
    conversions: list[Conversion] = field(default_factory=list[Conversion])
    fusions: list[Fusion] = field(default_factory=list[Fusion])
    refused: list[RefusedFusion] = field(default_factory=list[RefusedFusion])
    """Fusions that were possible, but not made, with the reason."""
    regrets: list[Regret] = field(default_factory=list[Regret])
    """Kernels that are not the fastest for all sizes of a range."""
    pick: Pick | None = None
    """How the kernels were picked; None if unknown."""
    note: str = ""
    """A remark on information that the explanation lacks; empty if it lacks none."""
    threads: Threads | None = None
    """How kernels are divided among threads; None if the program was not lowered that far."""
    values: Sequence[str] = ()
    """The values of shape-determining inputs that the program is specialised on."""
    sizes: Sequence[str] = ()
    """The treatment of each dynamic dimension in the program, and the reason."""
    continuation: Sequence[PythonStep] = ()
    """The steps after the first subprogram, if the program has a graph break."""
    subprograms: Sequence[tuple[str, Explanation]] = ()
    """The explanations of the subprograms after the first one that were compiled last, each with a
    text that says where it runs."""

    @property
    def programs(self) -> Iterator[Explanation]:
        """This explanation, followed by the explanations of all subprograms."""
        yield self
        for _, subprogram in self.subprograms:
            yield from subprogram.programs

    @property
    def coverage(self) -> Coverage:
        """How much of the program and its subprograms is native code, and which ops NumPy runs."""
        programs = list(self.programs)
        return coverage(
            (entry for each in programs for entry in each.ops),
            (conversion for each in programs for conversion in each.conversions),
            (step for each in programs for step in each.continuation),
        )

    def json(self) -> str:
        """Return the explanation as JSON.

        docs/report.md describes the fields: ``{"version", "ops", "conversions", "fusions",
        "refused", "regrets", "pick", "threads", "values", "sizes", "continuation"}``, with
        ``"subprograms"`` and ``"note"`` if there are any.
        """
        note = {"note": self.note} if self.note else {}
        parts = {"version": VERSION, "ops": self.ops, "conversions": self.conversions}
        parts |= {"fusions": self.fusions, "refused": self.refused, "regrets": self.regrets}
        made_for = {"values": list(self.values), "sizes": list(self.sizes)}
        more = {
            "pick": self.pick,
            "threads": self.threads,
            **made_for,
            "continuation": list(self.continuation),
        }
        followed = {where: json.loads(subprogram.json()) for where, subprogram in self.subprograms}
        rest = {"subprograms": followed} if followed else {}
        return json.dumps({**parts, **more, **rest, **note}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """Return the explanation in a text that `json` has written. Raises ValueError for any other
        text."""
        try:
            found = cls._of(json.loads(text))
            found.why()
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"its explanation cannot be read: {error!r}") from error
        return found

    @classmethod
    def _of(cls, record: Mapping[str, Any]) -> Explanation:
        followed = cast(Mapping[str, Any], record.get("subprograms", {})).items()
        parts: dict[str, Any] = {
            name: part for name, part in record.items() if name not in ("version", "subprograms")
        }
        if record["version"] != VERSION:
            raise ValueError(f"version {record['version']} of the schema, not {VERSION}")
        return cls(**parts, subprograms=[(where, cls._of(each)) for where, each in followed])

    def __str__(self) -> str:
        return self._text(why=False)

    def why(self) -> str:
        """Return the explanation as text, with the reasons against other kernels and fusions."""
        return self._text(why=True)

    def _text(self, *, why: bool) -> str:
        refused = self.refused if why else []
        further = self.conversions, self.fusions, refused, self.regrets
        text = table(self.ops, *further, self.pick, why=why)
        if self.threads is not None:
            text += ["", *thread_lines(self.threads)]
        if self.values:
            text += ["", headline_of_values(self.values)]
        if self.sizes:
            text += ["", "open dimensions", *(f"  {line}" for line in self.sizes)]
        text += step_lines(self.continuation)
        for where, subprogram in self.subprograms:
            text += ["", f"{where}:", subprogram._text(why=why)]
        return "\n".join([self.note, *text] if self.note else text)

    def _repr_html_(self) -> str:
        notes = [self.note, headline_of_values(self.values)]
        further = self.conversions, self.fusions, self.refused, self.regrets
        return page(self.ops, *further, self.pick, notes)
