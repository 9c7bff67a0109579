"""The structure of a source tree, as figures that say how much there is to read.

    python -m tests.structure [ROOT]

ROOT is the root of a checkout; it is this one by default. Statements are those of Python's grammar,
without docstrings: neither lines that hold several of them nor missing documentation change the
figure. Imports inside functions count for import cycles too.
"""

from __future__ import annotations

import argparse
import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A parsed source file."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    def functions(self) -> Iterator[_Function]:
        """All functions, including methods and nested functions."""
        return (node for node in ast.walk(self.tree) if isinstance(node, _Function))

    def top_level(self) -> Iterator[tuple[str, ast.stmt]]:
        """The names that the module defines itself, with their statements."""
        for statement in self.tree.body:
            match statement:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield statement.name, statement
                case ast.Assign(targets=[ast.Name(id=name)]):
                    yield name, statement
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield name, statement
                case _:
                    pass


def read(root: Path) -> list[Module]:
    """The modules of the package in a checkout, through the links of ``src/tessella``."""
    package = root / "src" / "tessella"
    paths = [path for entry in package.iterdir() for path in [entry, *entry.resolve().rglob("*")]]
    named = {_module_name(root, path): path for path in paths if path.suffix == ".py"}
    return [Module(name, path.read_text()) for name, path in sorted(named.items())]


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else ("tessella", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(node: ast.AST) -> int:
    """The number of statements below a node, without docstrings."""
    return sum(isinstance(n, ast.stmt) and not _is_text(n) for n in ast.walk(node))


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def lines(function: _Function) -> int:
    """The number of lines of a function."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def imports(module: Module, known: Iterable[str]) -> set[str]:
    """The modules of the tree that a module imports, at its top level or in a function."""
    names: set[str] = set()
    for statement in ast.walk(module.tree):
        match statement:
            case ast.Import():
                names |= {alias.name for alias in statement.names}
            case ast.ImportFrom(module=str() as source):
                inner = {f"{source}.{alias.name}" for alias in statement.names}
                names |= inner | ({source} if inner - set(known) else set())
            case _:
                pass
    return names & set(known) - {module.name}


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or through others."""
    reached = {name: _reached(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def unexplained(module: Module) -> Iterator[str]:
    """The named numeric constants without a docstring below, or a comment beside or above them."""
    text = ["", *module.text.split("\n")]
    explained = {first for first, second in pairwise(module.tree.body) if _is_text(second)}
    for name, statement in module.top_level():
        above = text[statement.lineno - 1].startswith("#")
        beside = "#" in text[statement.end_lineno or statement.lineno]
        is_explained = above or beside or statement in explained
        if name.isupper() and _is_number(statement) and not is_explained:
            yield f"{module.name}.{name}"


def _is_number(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    parts = list(ast.walk(statement.value))
    numbers = [n for n in parts if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
    arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return bool(numbers) and all(isinstance(n, arithmetic) for n in parts)


def shared_classes(modules: Sequence[Module]) -> dict[str, list[str]]:
    """The class names that several modules define, with these modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name, statement in module.top_level():
            if isinstance(statement, ast.ClassDef):
                places[name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def report(modules: Sequence[Module]) -> Iterator[str]:
    """The lines that are printed."""
    known = [module.name for module in modules]
    functions = [(module.name, f) for module in modules for f in module.functions()]
    yield f"files: {len(modules)}"
    yield f"statements: {sum(statements(module.tree) for module in modules)}"
    for unit, measure in (("statements", statements), ("lines", lines)):
        name, longest = max(functions, key=lambda found: measure(found[1]))
        yield f"longest function in {unit}: {measure(longest)}, {name}.{longest.name}"
    public = [n for module in modules for n, _ in module.top_level() if not n.startswith("_")]
    yield f"public names: {len(public)}"
    found = cycles({module.name: imports(module, known) for module in modules})
    yield from _listed("import cycles", [" ".join(group) for group in found])
    constants = [name for module in modules for name in unexplained(module)]
    yield from _listed("numeric constants without an explanation", constants)
    shared = [f"{name}: {' '.join(places)}" for name, places in shared_classes(modules).items()]
    yield from _listed("class names that several modules define", shared)


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    yield f"{title}: {len(items)}"
    yield from (f"    {item}" for item in items)


def main() -> None:
    """Print the figures of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    print(*report(read(parser.parse_args().root.resolve())), sep="\n")


if __name__ == "__main__":
    main()
