"""Random Tile programs, with arrays that fit them.

Their numbers are small integers, so that sums and products are exact in any order.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

import tessella
from tessella.frontends.tile.parse import parse
from tessella.frontends.tile.source import TileText
from tessella.frontends.tile.syntax import Assignment, Contraction, Scan
from tessella.support.errors import ResourceError, TileError
from tests.frontends.tile import points
from tests.frontends.tile.points import Array
from tests.generators.choices import Choices

DTYPES = "float32 float32 float32 float64 int32 int64 int8 uint8 uint32 bool".split()
MOST_POINTS = 20_000
LARGEST = 1 << 22
"""Of the numbers in a program: float32 holds sums of such numbers exactly."""


class Sketch(Choices):
    """A program that grows by statements, with the value of everything in it."""

    def __init__(self, random: Random, largest: int = 6) -> None:
        super().__init__(random)
        self.largest = largest
        """Of the sizes of inputs."""
        self.inputs: list[str] = []
        self.arrays: list[Array] = []
        self.statements: list[str] = []
        self.steps: list[str] = []
        """The functions that scans run."""
        self.scope: dict[str, Any] = {}

    @property
    def source(self) -> str:
        return self.text(self.statements)

    def text(self, statements: list[str]) -> str:
        outputs = [s.split("[")[0].split(" =")[0].replace(" backward", "") for s in statements]
        head = f"function ({', '.join(self.inputs)}) -> ({', '.join(outputs)})"
        return "\n".join([*self.steps, f"{head} {{", *(f"  {s}" for s in statements), "}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        arrays = [f"{a.dtype}{list(a.shape)}" for a in self.arrays]
        return f"\n{self.source}\n{', '.join(arrays)}\n"

    # ** tensors **

    def input(self, shape: tuple[int, ...], dtype: str, *, unit: bool = False) -> str:
        """A new input; with ``unit``, of ones and minus ones."""
        low, high = (0, 1) if dtype == "bool" else (-2, 3)
        values = 2 * self.integers(shape, 0, 1) - 1 if unit else self.integers(shape, low, high)
        return self.given(np.asarray(values, dtype))

    def given(self, array: Array) -> str:
        """A new input with these elements."""
        name, shape = f"A{len(self.inputs)}", array.shape
        dims = [f"{name}D{i}" for i in range(len(shape))]
        self.inputs.append(f"{name}[{', '.join(dims)}]")
        self.arrays.append(array)
        self.scope |= {name: array, **dict(zip(dims, shape, strict=True))}
        return name

    def tensor(self, dtype: str, *, unit: bool) -> str:
        """An input, or what a statement gave."""
        known = [n for n, v in self.scope.items() if isinstance(v, np.ndarray) and v.size]
        if known and not unit and self.chance(40):
            return self.one_of(*known)
        rank = self.one_of(0, 1, 1, 2, 2, 3)
        shape = tuple(self.between(1, self.largest) for _ in range(rank))
        return self.input(shape, dtype, unit=unit)

    # ** contractions **

    def form(self, names: list[str]) -> str:
        """A form of a few indices."""
        text = ""
        for name in self.random.sample(names, min(len(names), self.one_of(1, 1, 1, 2, 2, 3))):
            factor = self.one_of("", "", "", "", "2*", "3*", "-", "-2*")
            divisor = self.one_of("", "", "", "", "", "", "/2", "/3")
            text += f"{'+' if text and factor[:1] != '-' else ''}{factor}{name}{divisor}"
        if self.chance(30):
            text += self.one_of("+1", "-1", "+2", "-3", "+1/2")
        return text if self.chance(95) else str(self.between(0, 2))

    def contraction(self) -> bool:
        """Try a random contraction; whether it was added."""
        dtype = self.one_of(*DTYPES)
        aggregation = self.one_of(*"++*><=")
        combination = self.one_of("", "", "*", "*", "+", "==", "?")
        count = {"": 1, "?": 3}.get(combination, 2)
        unit = aggregation == "*" and dtype[:1] == "f"
        tensors = [self.tensor(dtype, unit=unit) for _ in range(count)]
        names = list("ijkl"[: self.between(1, 4 if self.largest < 9 else 2)])
        accesses = [
            f"{t}[{', '.join(self.form(names) for _ in self.scope[t].shape)}]" for t in tensors
        ]
        marks = {"": [], "?": [" == ", " ? "]}.get(combination, [f" {combination} "])
        inner = accesses[0] + "".join(
            mark + access for mark, access in zip(marks, accesses[1:], strict=True)
        )
        rank = self.one_of(0, 1, 1, 2, 2, 3)
        forms = ", ".join(self.form(names) for _ in range(rank))
        sizes = [self.between(1, self.largest + 2) for _ in range(rank)]
        name = f"T{len(self.statements)}"
        constraints = [
            f", {self.form(names)} < {self.between(1, self.largest - 1)}"
            for _ in range(self.one_of(0, 0, 0, 1, 2))
        ]
        tail = self._default(sizes, tensors, combination)
        for _ in range(len(names) + 2):
            text = f"{name}[{forms} : {', '.join(map(str, sizes))}] = {aggregation}({inner})"
            text += "".join(constraints) + tail + ";"
            missing = self._missing(text)
            if missing == "time":
                return False
            if missing == "=":
                aggregation = self.one_of(*"+>")
            elif missing is not None:
                constraints.append(f", {missing} < {self.between(1, 4)}")
            else:
                return self._add(text)
        return False

    def _default(self, sizes: list[int], tensors: list[str], combination: str) -> str:
        if self.chance(70):
            return self.one_of("", "", " no_defract")
        arrays = [self.scope[t] for t in tensors]
        dtype = points.common_type([a.dtype for a in arrays])
        if combination in ("==", "?"):
            dtype = np.dtype(bool) if combination == "==" else arrays[2].dtype
        skipped = self.between(0, len(sizes))
        shape = tuple(n if self.chance(80) else 1 for n in sizes[skipped:])
        return f" default {self.input(shape, dtype.name)}"

    def _missing(self, statement: str) -> str | None:
        """The index that has no bounds, `=` where elements are assigned twice, or `time` where the
        ranges are not found in time."""
        try:
            tessella.tile(self.text([*self.statements, statement])).lower(*self.arrays)
        except (ResourceError, TileError) as error:
            if "no bounds" in error.what:
                return error.what.split("'")[1]
            if "more than once" in error.what:
                return "="
            if "too long to find" in error.what:
                return "time"
            raise
        return None

    def _add(self, text: str) -> bool:
        """Add a contraction, unless its numbers are too large or its points too many."""
        source = TileText(self.text([*self.statements, text]))
        statement = parse(source).statements[-1]
        assert isinstance(statement, Contraction)
        with np.errstate(all="ignore"):
            value = points.contraction(statement, self.scope)
            positive = {name: _absolute(v) for name, v in self.scope.items()}
            most = points.contraction(statement, positive)
        if value.dtype.kind == "f" and np.abs(most).max(initial=0) > LARGEST:
            return False
        self.statements.append(text)
        self.scope[statement.name.name] = value
        return True

    # ** assignments **

    def expression(self, shape: tuple[int, ...], depth: int) -> str:
        """An expression whose shape broadcasts to one."""
        known = [
            n
            for n, v in self.scope.items()
            if not isinstance(v, np.ndarray) or _broadcasts(v.shape, shape)
        ]
        if depth == 0 or self.chance(20):
            return self.one_of(*known, *known, str(self.between(0, 4)), "1.5")
        parts = [self.expression(shape, depth - 1) for _ in range(3)]
        kind = self.one_of("binary", "binary", "compare", "cond", "call", "cast")
        match kind:
            case "binary":
                return f"({parts[0]} {self.one_of('+', '-', '*')} {parts[1]})"
            case "compare":
                mark = self.one_of("==", "!=", "<", "<=", ">", ">=")
                return f"({parts[0]} {mark} {parts[1]})"
            case "cond":
                return f"({parts[0]} ? {parts[1]} : {parts[2]})"
            case "call":
                return f"{self.one_of('max', 'min')}({parts[0]}, {parts[1]})"
            case _:
                return self.one_of(f"as_float({parts[0]}, 32)", f"as_int({parts[0]}, 64)")

    def assignment(self) -> bool:
        """Try a random assignment; whether it was added."""
        shapes = [v.shape for v in self.scope.values() if isinstance(v, np.ndarray)]
        return self._assign(self.expression(self.one_of((), *shapes), 3))

    def whole(self) -> bool:
        """Try a function of a whole tensor; whether it was added."""
        name = self.tensor(self.one_of(*DTYPES), unit=False)
        shape = self.scope[name].shape
        rank = len(shape)
        kinds = ["shape", "reshape", *(["index", "argsort", "gather", "scatter"] if rank else [])]
        match self.one_of(*kinds):
            case "gather":
                return self._assign(f"gather({name}, {self._places(self._shape(), shape[0])})")
            case "scatter":
                rows = self.between(1, self.largest)
                places = self._places(shape[: self.between(0, rank)], rows)
                like = self.input((rows, *self._shape()), "int8")
                write = self.one_of("scatter", "scatter_max", "scatter_min", "scatter_last")
                return self._assign(f"{write}({name}, {places}, {like})")
            case "reshape":
                sizes = self.random.sample(shape, rank)
                joined = [math.prod(sizes[:2]), *sizes[2:]] if self.chance(50) else sizes
                return self._assign(f"reshape({', '.join([name, *map(str, joined)])})")
            case "index":
                return self._assign(f"index({name}, {self.between(0, rank - 1)})")
            case "argsort":
                axis = self.between(0, rank - 1)
                count = self.between(1, shape[axis])
                return self._assign(f"argsort({name}, {axis}, {self.between(0, 1)}, {count})")
            case _:
                return self._assign(f"shape({name})")

    def _places(self, shape: tuple[int, ...], rows: int) -> str:
        """An input of indices, of which some are outside."""
        values = self.integers(shape, -2, rows + 1)
        return self.given(np.asarray(values, self.one_of("int32", "int32", "int64", "int8")))

    def _assign(self, expression: str) -> bool:
        """Add an assignment, unless it does not fit or its numbers are too large."""
        text = f"T{len(self.statements)} = {expression};"
        program = self.text([*self.statements, text])
        try:
            tessella.tile(program).lower(*self.arrays)
        except TileError as error:
            # booleans have no minus, and numbers may be too large for small types
            if "not defined for bool" in error.what or "does not fit" in error.what:
                return False
            raise
        statement = parse(TileText(program)).statements[-1]
        assert isinstance(statement, Assignment)
        with np.errstate(all="ignore"):
            value = points.expression(statement.value, self.scope)
        if np.abs(np.asarray(value, float)).max(initial=0) > LARGEST:
            return False
        self.statements.append(text)
        self.scope[statement.name.name] = value
        return True

    # ** scans **

    def scan(self) -> bool:
        """Try a scan around a random step; whether it was added."""
        inner, steps = Sketch(self.random, self.largest), self.between(1, 4)
        carried = [
            self.input(self._shape(), self.one_of(*DTYPES)) for _ in range(self.between(0, 2))
        ]
        sequences = [
            self.input((steps, *self._shape()), self.one_of(*DTYPES))
            for _ in range(self.between(1, 2))
        ]
        for name in (*carried, *sequences):
            inner.given(self.scope[name] if name in carried else self.scope[name][0])
        given = len(inner.inputs)
        for _ in range(self.between(1, 2)):
            self.one_of(inner.contraction, inner.assignment, inner.whole)()
        made = [s.split("[")[0].split(" =")[0] for s in inner.statements]
        following = [inner.following(f"A{i}") for i in range(len(carried))]
        if not (made or following):
            return False
        others = [self.given(array) for array in inner.arrays[given:]]
        number = len(self.steps)
        outputs = [*(f"N{i}" for i in range(len(carried))), *made]
        head = f"function step{number} ({', '.join(inner.inputs)}) -> ({', '.join(outputs)})"
        body = [*inner.statements, *(f"N{i} = {text};" for i, text in enumerate(following))]
        self.steps.append("\n".join([f"{head} {{", *(f"  {s}" for s in body), "}"]))
        name = f"T{len(self.statements)}"
        targets = [name, *(f"{name}_{i}" for i in range(1, len(outputs)))]
        targets[len(carried) :] = [t + self._order() for t in targets[len(carried) :]]
        taken = ", ".join(n + self._order() for n in sequences)
        passed = f"{', '.join(carried)}; {taken}{'; ' if others else ''}{', '.join(others)}"
        if self._add_scan(f"{', '.join(targets)} = scan step{number}({passed});"):
            return True
        self.steps.pop()
        return False

    def following(self, name: str) -> str:
        """Return the next value of a tensor that a step carries: small numbers, of its type and
        shape."""
        dtype, shape = self.scope[name].dtype, self.scope[name].shape
        value = f"as_float({self.expression(shape, 2)}, 32) + as_float({name}, 32) * 0"
        kind = {"b": "bool", "i": "int", "u": "uint", "f": "float"}[dtype.kind]
        bits = "" if kind == "bool" else f", {dtype.itemsize * 8}"
        least = 0 if kind == "uint" else -2
        return f"as_{kind}(max(min({value}, 2), {least}){bits})"

    def _shape(self) -> tuple[int, ...]:
        return tuple(self.between(1, self.largest) for _ in range(self.one_of(0, 1, 1, 2)))

    def _order(self) -> str:
        return self.one_of("", "", " backward")

    def _add_scan(self, text: str) -> bool:
        """Add a scan, unless the numbers of later steps are too large or do not fit a type."""
        program = self.text([*self.statements, text])
        statement = parse(TileText(program)).statements[-1]
        assert isinstance(statement, Scan)
        try:
            tessella.tile(program).lower(*self.arrays)
        except TileError as error:
            if "not defined for bool" in error.what or "does not fit" in error.what:
                return False
            raise
        with np.errstate(all="ignore"):
            values = points.scan(statement, self.scope)
        if any(np.abs(np.asarray(v, float)).max(initial=0) > LARGEST >> 6 for v in values.values()):
            return False
        self.statements.append(text)
        self.scope |= values
        return True


def _absolute(value: Any) -> Any:
    return np.asarray(np.abs(value)) if isinstance(value, np.ndarray) else value


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def sketch(seed: int, count: int, largest: int = 6) -> Sketch:
    """A program of so many statements, or of fewer where those that are tried do not fit."""
    made = Sketch(Random(seed), largest)
    for _ in range(20):
        if len(made.statements) == count:
            break
        if made.chance(15):
            made.scan()
        elif not made.scope or made.chance(60):
            made.contraction()
        elif made.chance(40):
            made.whole()
        else:
            made.assignment()
    if not made.statements:
        made.statements.append("T0 = 1;")
    return made
