"""Docstrings of the public API, by numpydoc's validator: ``python -m docs.docstrings``.

The checks are those of `[tool.numpydoc_validation]` in pyproject.toml. Beside them, errors stand in
a section `Raises`, and not in prose. The exit code is 1 where a docstring fails.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import tessella

VALIDATOR: Any = import_module("numpydoc.validate")  # it has no types
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
PROSE = re.compile(r"\bRaises? [A-Z]\w+Error")
NOT_CONSTRUCTED = ("PR01",)
"""Checks of a class that do not apply without a section `Parameters`: users do not construct it."""


def public_names() -> Iterator[str]:
    """The names of the package that `__all__` lists, and the public members of its classes."""
    for name in tessella.__all__:
        value = getattr(tessella, name)
        if not (callable(value) or inspect.isclass(value)):
            continue
        yield f"tessella.{name}"
        if inspect.isclass(value) and not issubclass(value, BaseException):
            yield from (f"tessella.{name}.{member}" for member in _members(value))


def _members(kind: type[Any]) -> Iterator[str]:
    """The public methods and properties that the classes of tessella define."""
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        is_method = inspect.isroutine(value) or isinstance(value, property | classmethod)
        owners = [base.__module__ for base in kind.__mro__ if name in vars(base)]
        is_ours = bool(owners) and owners[0].startswith("tessella")
        if is_method and is_ours and not name.startswith("_"):
            yield name


def problems(name: str, checks: Collection[str]) -> Iterator[str]:
    """What is wrong with the docstring of a name."""
    found: dict[str, Any] = VALIDATOR.validate(name)
    doc: str = found["docstring"]
    left_out = () if "Parameters\n----" in inspect.cleandoc(doc) else NOT_CONSTRUCTED
    for code, message in found["errors"]:
        is_class = found["type"] in ("type", "ABCMeta", "EnumType")
        if code in checks and not (is_class and code in left_out):
            yield f"{found['file']}:{found['file_line']}: {name}: {code} {message}"
    if PROSE.search(doc):
        yield f"{found['file']}:{found['file_line']}: {name}: errors stand in a section Raises"


def main() -> int:
    """Print all problems."""
    settings = tomllib.loads(PYPROJECT.read_text())["tool"]["numpydoc_validation"]
    found = [each for name in public_names() for each in problems(name, settings["checks"])]
    print(*found, sep="\n", end="\n" * bool(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
