"""Errors that docstrings promise are names of the package."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator

import tessella
from tessella.support import errors


def public_docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of all names of the package, and of their public members."""
    for name in dir(tessella):
        value = getattr(tessella, name)
        yield name, inspect.getdoc(value) or ""
        members = vars(value) if inspect.isclass(value) else ()
        for member in (m for m in members if not m.startswith("_") or m == "__call__"):
            yield f"{name}.{member}", inspect.getdoc(getattr(value, member)) or ""


def test_promised_errors_can_be_caught() -> None:
    promised = {
        (name, error)
        for name, text in public_docstrings()
        for error in re.findall(r"\b[A-Z][A-Za-z]*Error\b", text)
    }
    assert len({error for _, error in promised}) > 8
    known = vars(builtins).keys() | {*dir(tessella)}
    assert {each for each in promised if each[1] not in known} == set()


def test_all_errors_are_names_of_the_package() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert defined <= {*dir(tessella)}
    assert all(getattr(tessella, name) is getattr(errors, name) for name in defined)
