"""Mutants: which small errors in the source do the tests not notice?

    python -m tests.mutants --seed 1 --count 100

A mutant is the source with one change: an operator swapped, a constant off by one, a condition
negated, or a statement dropped. All tests run once, in a copy of the tree where each drawn place
notes which test comes there. Then each mutant runs with some of the tests that came to its place.
One that they all pass survives: it is equivalent to the source, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("passes", "lowering", "codegen", "dialects", "kernels", "runtime", "support")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", ".*_cache", ".hypothesis"
)
SECONDS = 300
"""After so long the tests of a mutant have failed: it may never end."""

NOTES = "TESSELLA_MUTANTS"
"""The environment variable with the folder for what the first run notes."""

PROBE = f'''"""Notes which tests come to the places of mutants."""

import os

FOLDER, _seen = os.environ.get("{NOTES}"), set()


def come_to(place):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if FOLDER and test and (place, test) not in _seen:
        _seen.add((place, test))
        with open(f"{{FOLDER}}/places.{{os.getpid()}}", "a") as file:
            print(place, test, file=file)
'''
_COME_TO = '__import__("tessella.support.probe", fromlist=["probe"]).come_to({place})'

_COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_COMPUTED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.FloorDiv(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.FloorDiv(),
}
_JOINED: dict[type[ast.boolop], ast.boolop] = {ast.And: ast.Or(), ast.Or: ast.And()}


@dataclass(frozen=True)
class Mutant:
    """A file with the text between two offsets replaced."""

    path: str
    line: int
    begin: int
    end: int
    before: str
    after: str
    is_statement: bool

    def apply(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.begin] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of the functions of a file."""
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for node in _nodes(ast.parse(source)):
        for old, new in _changes(node):
            begin = starts[old.lineno - 1] + old.col_offset
            end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
            after = ast.unparse(new)
            if isinstance(old, ast.expr):
                after = f"({after})"
            is_statement = isinstance(old, ast.stmt)
            yield Mutant(path, old.lineno, begin, end, ast.unparse(old), after, is_statement)


def _nodes(tree: ast.AST, *, inside: bool = False) -> Iterator[ast.AST]:
    """Return the nodes that run when a function is called."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(value, ast.arguments):
            continue
        for node in value if isinstance(value, list) else [value]:
            # the positions in formatted strings are wrong before Python 3.12
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.pattern):
                continue
            if inside:
                yield node
            yield from _nodes(node, inside=inside or isinstance(node, ast.FunctionDef))


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Parts of a node, and what takes their place."""
    match node:
        case ast.Compare(ops=[op]):
            yield node, ast.Compare(node.left, [_COMPARED[type(op)]], node.comparators)
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield node, ast.BinOp(node.left, _COMPUTED[type(op)], node.right)
        case ast.BoolOp(op=op):
            yield node, ast.BoolOp(_JOINED[type(op)], node.values)
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield node, ast.Constant(value + 1)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            # a comparison by itself is swapped already
            if not isinstance(test, ast.Compare):
                yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Raise():
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield node, ast.Pass()
        case _:
            pass


@dataclass(frozen=True)
class Copy:
    """A copy of the tree, whose files may be changed."""

    folder: Path

    def make(self) -> None:
        """Copy the tree."""
        shutil.copytree(ROOT, self.folder, symlinks=True, ignore=LEFT_OUT)
        (self.folder / "support" / "probe.py").write_text(PROBE)

    def draw(self, count: int, seed: int) -> Sequence[Mutant]:
        """Some mutants of the source."""
        files = sorted(file for name in FOLDERS for file in (self.folder / name).rglob("*.py"))
        found = [
            mutant
            for file in files
            if file.name != "probe.py"
            for mutant in mutants(file.relative_to(self.folder).as_posix(), file.read_text("utf-8"))
        ]
        drawn = random.Random(seed).sample(found, count)
        return sorted(drawn, key=lambda one: (one.path, one.begin))

    @contextlib.contextmanager
    def changed(self, path: str, change: Callable[[bytes], bytes]) -> Generator[None]:
        """Have another content in a file."""
        source = (self.folder / path).read_bytes()
        self._write(path, change(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: str, source: bytes) -> None:
        """Give a file another content."""
        file = self.folder / path
        file.write_bytes(source)
        # the time of a compiled file has seconds only
        Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)

    def pytest(self, *arguments: str, seconds: float | None = None) -> int:
        """The exit status of the tests, or -1 where they take longer."""
        paths = os.pathsep.join([str(self.folder / "src"), str(self.folder)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, NOTES: str(self.folder), "PYTHONPATH": paths}
        try:
            with (self.folder / "output").open("wb") as output:
                return subprocess.run(
                    command,
                    cwd=self.folder,
                    env=environment,
                    stdout=output,
                    stderr=output,
                    timeout=seconds,
                    check=False,
                ).returncode
        except subprocess.TimeoutExpired:
            return -1


def probed(source: bytes, places: Mapping[int, Mutant]) -> bytes:
    """The source with a note of coming to each of the places, which may be inside others."""
    inserted: list[tuple[int, bool, int, str]] = []
    for place, one in places.items():
        call, size = _COME_TO.format(place=place), one.end - one.begin
        opened, closed = (f"{call}; ", "") if one.is_statement else (f"({call} or (", "))")
        inserted += [(one.begin, True, -size, opened), (one.end, False, size, closed)]
    for offset, _, _, text in sorted(inserted, reverse=True):
        source = source[:offset] + text.encode() + source[offset:]
    return source


def record(tree: Copy, drawn: Sequence[Mutant], arguments: Sequence[str]) -> None:
    """Run all tests with a probe at each mutant's place, which records the tests that reach it."""
    files: dict[str, dict[int, Mutant]] = {}
    for place, one in enumerate(drawn):
        files.setdefault(one.path, {})[place] = one
    with contextlib.ExitStack() as stack:
        for path, places in files.items():
            stack.enter_context(tree.changed(path, partial(probed, places=places)))
        tree.pytest("-p", "tests.mutants", *arguments)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a test of the first run takes."""
    if report.when == "call" and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:
        with (Path(os.environ[NOTES]) / "seconds").open("a") as file:
            print(report.duration, report.nodeid, file=file)


def _tests_of(tree: Copy, drawn: Sequence[Mutant]) -> Sequence[Sequence[str]]:
    """Return for each mutant the tests that reach its line, the most relevant first."""
    lines = (tree.folder / "seconds").read_text().splitlines()
    seconds = {name: float(taken) for taken, _, name in (line.partition(" ") for line in lines)}
    names: list[set[str]] = [set() for _ in drawn]
    for file in tree.folder.glob("places.*"):
        for line in file.read_text().splitlines():
            place, _, name = line.partition(" ")
            if name in seconds:
                names[int(place)].add(name)
    return [_ranked(found, one, seconds) for found, one in zip(names, drawn, strict=True)]


def _ranked(names: Collection[str], one: Mutant, seconds: Mapping[str, float]) -> Sequence[str]:
    """The quickest case of each test first, and before others those of the mutant's folder."""
    folder = one.path.partition("/")[0]
    cases: Counter[str] = Counter()
    ranks: dict[str, tuple[bool, int, float]] = {}
    for name in sorted(names, key=lambda name: seconds[name]):
        test = name.partition("[")[0]
        ranks[name] = (f"{folder}/" not in name, cases[test], seconds[name])
        cases[test] += 1
    return sorted(names, key=lambda name: ranks[name])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100, help="mutants to draw")
    parser.add_argument("--most", type=int, default=20, help="tests that a mutant runs with")
    parser.add_argument("--keep", type=Path, help="folder of the copy; the first run is not redone")
    parser.add_argument("tests", nargs="*", default=["-n", "2"], help="arguments of the first run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        tree = Copy(options.keep or Path(temporary) / "tree")
        is_new = not tree.folder.exists()
        if is_new:
            tree.make()
        drawn = tree.draw(options.count, options.seed)
        if is_new:
            record(tree, drawn, options.tests)
        outcomes = Counter[str]()
        for one, names in zip(drawn, _tests_of(tree, drawn), strict=True):
            outcome = run_mutant(tree, one, names[: options.most])
            outcomes[outcome.partition(" ")[0]] += 1
            print(f"{one}: {outcome}, {len(names)} tests come there", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))


def run_mutant(tree: Copy, one: Mutant, names: Sequence[str]) -> str:
    """Return the outcome of a mutant under these tests."""
    if not names:
        return "unreached"
    with tree.changed(one.path, one.apply):
        status = tree.pytest("-x", *names, seconds=SECONDS)
    if status == 0:
        return "survives"
    failed = re.search(
        r"^(?:FAILED|ERROR) (\S+)", (tree.folder / "output").read_text(), re.MULTILINE
    )
    return f"killed by {failed[1] if failed else f'exit status {status}'}"


if __name__ == "__main__":
    main()
