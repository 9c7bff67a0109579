"""Common parts of the commands: checked names, the machine, and figures in a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessella.tools.measure import machine

Fits = Callable[[str, str], bool]
"""True if a given text selects a name."""


class Command(argparse.ArgumentParser):
    """The parser of ``python -m bench.COMMAND``, with ``--json``."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"python -m bench.{command}", description=description)
        self.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
        self._listed: dict[str, _Known] = {}

    def add_names(self, kind: str, known: Iterable[str], fits: Fits = str.startswith) -> None:
        """Add ``options.names``: the selected known names; all if none are given."""
        part = "parts" if fits is str.__contains__ else "beginnings"
        text = f"{kind}s, or {part} of their names; default: all"
        self.add_argument("names", nargs="*", metavar="NAME", help=text)
        self._listed["names"] = _Known(kind, tuple(known), fits)

    def add_peers(self, known: Iterable[str]) -> None:
        """Add ``options.peers``."""
        self.add_listed("peer", known)

    def add_listed(self, kind: str, known: Iterable[str]) -> None:
        """Add an option that lists known names: ``options.peers`` for the kind `peer`."""
        listed, option = _Known(kind, tuple(known), str.__eq__), f"{kind}s"
        text = f"of {','.join(listed.all)}"
        self.add_argument(f"--{option}", type=_separated, default=[], help=text)
        self._listed[option] = listed

    def add_thread_counts(self, default: Sequence[int]) -> None:
        """Add ``options.threads``, a list of numbers."""
        text = f"one after the other (default: {','.join(map(str, default))})"
        self.add_argument("--threads", type=_counts, default=list(default), help=text)

    def add_threads(self) -> None:
        """Add ``options.threads``."""
        self.add_argument("--threads", type=_count, default=1, help="of each peer (default: 1)")

    def add_repeat(self, default: int, what: str = "timed turns") -> None:
        """Add ``options.repeat``."""
        text = f"{what} (default: {default})"
        self.add_argument("--repeat", type=_count, default=default, help=text)

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse the options. Ends the command if a given name matches nothing."""
        options = self.parse_args(arguments)
        for option, known in self._listed.items():
            given = getattr(options, option)
            for text in given:
                if not any(known.fits(name, text) for name in known.all):
                    self.error(f"no {known.kind} {text!r}; there are {', '.join(known.all)}")
            setattr(options, option, known.chosen(given))
        return options


@dataclass(frozen=True)
class _Known:
    """Things with names."""

    kind: str
    all: tuple[str, ...]
    fits: Fits

    def chosen(self, given: Sequence[str]) -> list[str]:
        """Return the selected names; all if none are given."""
        return [n for n in self.all if not given or any(self.fits(n, text) for text in given)]


def _separated(text: str) -> list[str]:
    return text.split(",")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _counts(text: str) -> list[int]:
    return [_count(part) for part in _separated(text)]


def show_machine() -> dict[str, Any]:
    """Print and return what the figures depend on."""
    where = machine()
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    facts = where | {"versions": versions}
    print("\n".join(f"{key}: {value}" for key, value in facts.items()))
    return where


def write_figures(file: Path | None, where: dict[str, Any], **figures: Any) -> None:
    """Write the figures and the machine, if there is a file for them."""
    if file is not None:
        file.write_text(json.dumps({"machine": where, **figures}, indent=1) + "\n")
