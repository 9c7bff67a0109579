"""All dialects, passes and targets that `tessella-opt` and, through entry points, `xdsl-opt` offer.

A pass is found without registration: it is a subclass of ``ModulePass``, or of a class in
``passes/kinds.py``, with a ``name``, in a file of ``passes/`` or ``lowering/``. These files are
read as text, so that a tool imports only what it uses. Dialects and passes of plugins are not
included: see ``driver/build/plugged.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

from xdsl.universe import Universe

from tessella.support.errors import InternalError


@dataclass(frozen=True)
class ObjectPath:
    """The location of an object: a name in a module."""

    module: str
    name: str

    def load(self) -> Any:
        """Import the object."""
        return getattr(import_module(self.module), self.name)


DIALECTS = {
    "device": ObjectPath("tessella.dialects.device", "Device"),
    "nn": ObjectPath("tessella.dialects.nn", "Nn"),
    "place": ObjectPath("tessella.dialects.place", "Place"),
    "rt": ObjectPath("tessella.dialects.rt", "Rt"),
    "tile": ObjectPath("tessella.dialects.tile", "Tile"),
}

REPLACED = {"arith": ObjectPath("tessella.dialects.arith", "Arith")}
"""Upstream dialects that `tessella-opt` replaces; `xdsl-opt` keeps xDSL's."""

TARGETS = {"tessella-llvm": ObjectPath("tessella.codegen.xdsl_target", "LLVMTarget")}

BASES = {
    *("ModulePass", "ProgramPass", "KernelPass", "StatementPass", "DebugPass"),
    *("PickingPass", "FusionPass"),
}
"""The classes that passes derive from."""

PASS_PACKAGES = ("tessella.passes", "tessella.lowering")


def find_passes() -> dict[str, ObjectPath]:
    """Return the passes by name, sorted. Raises InternalError for a duplicate name."""
    found: dict[str, ObjectPath] = {}
    for package in PASS_PACKAGES:
        for file in files(package).iterdir():
            if not file.name.endswith(".py"):
                continue
            module = f"{package}.{file.name.removesuffix('.py')}"
            for cls, name in _passes_in(file.read_text(encoding="utf-8")):
                entry = ObjectPath(module, cls)
                if name in found:
                    raise InternalError(f"{found[name]} and {entry} are both called {name!r}")
                found[name] = entry
    return dict(sorted(found.items()))


def _passes_in(source: str) -> Iterator[tuple[str, str]]:
    """Yield class and pass name of each ``class C(ModulePass): name = "..."``."""
    if not any(base in source for base in BASES):
        return
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id in BASES for base in node.bases
        ):
            yield from ((node.name, name) for name in _names(node))


def _names(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name("name")], value=ast.Constant(str(name))):
                yield name
            case _:
                pass


TESSELLA = Universe(
    all_dialects={name: entry.load for name, entry in DIALECTS.items()},
    all_passes={name: entry.load for name, entry in find_passes().items()},
    all_targets={name: entry.load for name, entry in TARGETS.items()},
)
"""The entry point `xdsl.universe` of this package."""
