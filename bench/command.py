"""What the commands have in common: names that are checked, the machine, and figures in a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tessella.tools.measure import machine

Fits = Callable[[str, str], bool]
"""Whether a name is meant by what was given."""


def new_parser(command: str, description: str) -> argparse.ArgumentParser:
    """The parser of ``python -m bench.COMMAND``, with ``--json``."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{command}", description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    return parser


def check_names(
    parser: argparse.ArgumentParser,
    kind: str,
    given: Iterable[str],
    known: Iterable[str],
    fits: Fits = str.__eq__,
) -> None:
    """End the command where something that was given means nothing that is known."""
    for text in given:
        if not any(fits(name, text) for name in known):
            parser.error(f"no {kind} {text!r}; there are {', '.join(known)}")


def chosen(known: Iterable[str], given: Sequence[str], fits: Fits = str.startswith) -> list[str]:
    """The names that were meant: all of them where nothing was given."""
    return [name for name in known if not given or any(fits(name, text) for text in given)]


def show_machine() -> dict[str, Any]:
    """What the figures depend on, which is also printed."""
    where = machine()
    print("\n".join(f"{key}: {value}" for key, value in where.items()))
    return where


def write_figures(file: Path | None, where: dict[str, Any], **figures: Any) -> None:
    """Write the figures of a machine, if there is a file for them."""
    if file is not None:
        file.write_text(json.dumps({"machine": where, **figures}, indent=1) + "\n")
