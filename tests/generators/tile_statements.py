"""Random small statements of the `tile` dialect.

Their numbers are small integers, so that sums are exact whatever their order is and whether
multiply-adds are fused. Ranges and the sizes of tensors may be open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64, i8, i32, i64
from xdsl.ir import Attribute

from tessella.dialects.layout import Layout, Piece
from tessella.dialects.nn.core import dtype_of, is_float, tensor
from tessella.dialects.place import PlaceAttr, placed, precision_of
from tessella.dialects.tile import Access, Linear
from tessella.dialects.tile.access import print_access
from tessella.support.sizes import Size, value_of
from tests.generators.choices import Choices
from tests.generators.open_sizes import CLOSED, OpenSizes, Values, draw_size, is_open, least
from tests.native import Array

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
"""Around the numbers of lanes, and odd."""
WINDOWS = (1, 2, 3, 3, 5, 9, 18)
STRIDES = (1, 1, 1, 1, 1, 1, 2, 3, 4, 5, -1, -2)
MOST_POINTS = 4000
MOST_ELEMENTS = 10000
ELEMENTS = (f32, f32, f32, f64, i64, i32, i8)
WIDER: dict[Attribute, Attribute] = {f32: f64, i32: i64}

_OPS = {
    True: {
        "add": "arith.addf",
        "sub": "arith.subf",
        "mul": "arith.mulf",
        "max": "arith.maximumf",
        "widen": "arith.extf",
    },
    False: {
        "add": "arith.addi",
        "sub": "arith.subi",
        "mul": "arith.muli",
        "max": "arith.maxsi",
        "widen": "arith.extsi",
    },
}
"""The ops on floats, and those on integers."""


Shape = tuple[Size, ...]


@dataclass(frozen=True)
class Numbers:
    """An array that is drawn where its sizes are numbers."""

    shape: Shape
    dtype: np.dtype[Any]
    choices: Sequence[int]
    seed: int

    def at(self, values: Values) -> Numbers:
        """The array for values of symbols."""
        return replace(self, shape=tuple(value_of(size, values) for size in self.shape))

    @property
    def array(self) -> Array:
        """Any of the choices in each element."""
        drawn = np.random.default_rng(self.seed).choice(self.choices, self.shape)
        return np.asarray(drawn.astype(self.dtype))


@dataclass(frozen=True)
class Statement:
    """A kernel `@k` of one statement, and what it is run with."""

    text: str
    operands: Mapping[str, Numbers]
    """Its arguments."""
    result: Numbers
    """What the memory of the result holds before."""
    sizes: OpenSizes = CLOSED

    def parse(self) -> ModuleOp:
        """The module, made anew."""
        return self.sizes.parse(self.text)

    def at(self, values: Values) -> Statement:
        """The statement for values of its symbols."""
        operands = {name: numbers.at(values) for name, numbers in self.operands.items()}
        return Statement(self.text, operands, self.result.at(values), self.sizes.at(values))

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The arguments of one without symbols."""
        return {name: numbers.array for name, numbers in self.operands.items()}

    @cached_property
    def before(self) -> Array:
        """Return the initial contents of the result's memory, for a statement without symbols."""
        return self.result.array


@dataclass
class Body:
    """A region on its way: a chain of ops, each on the last one's result."""

    element: Attribute
    arguments: list[tuple[str, Attribute]] = field(default_factory=list[tuple[str, Attribute]])
    lines: list[str] = field(default_factory=list[str])
    last: str = ""

    def argument(self, element: Attribute | None = None) -> str:
        """A new argument's name."""
        name = f"%a{len(self.arguments)}"
        self.arguments.append((name, element or self.element))
        return name

    def define(self, text: str) -> str:
        """Add an op; the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def op(self, kind: str, a: str, b: str) -> None:
        """Go on with an op on two values."""
        self.last = self.define(f"{self.name(kind)} {a}, {b} : {self.element}")

    def name(self, kind: str) -> str:
        return _OPS[is_float(self.element)][kind]

    def constant(self, value: int) -> str:
        number = f"{value}.0" if is_float(self.element) else str(value)
        return self.define(f"arith.constant {number} : {self.element}")

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}: {type}" for name, type in self.arguments)
        lines = "".join(f"    {line}\n" for line in self.lines)
        head = f"  ^bb0({arguments}):\n" if arguments else ""
        return f"{{\n{head}{lines}    tile.yield {self.last} : {self.element}\n  }}"


class Sketch(Choices):
    """A statement that grows part by part."""

    def __init__(self, random: Random, sizes: OpenSizes = CLOSED) -> None:
        super().__init__(random)
        self.sizes = sizes
        self.element: Attribute = self.one_of(*ELEMENTS)
        self.ranges: dict[str, Size] = {}
        self.free = [self.index(n, SIZES) for n in "xyzw"[: self.one_of(0, 1, 1, 2, 2, 2, 3, 3, 4)]]
        self.reduced = [self.index(n, WINDOWS) for n in "ijk"[: self.one_of(0, 0, 1, 1, 2, 3)]]
        kinds = ("+", "+", "+", "*", ">", "<") if self.reduced else ("=", "=", "=", "+", "<")
        self.kind: str = self.one_of(*kinds)
        self.running = ""
        """The reduced index that the statement runs along, and how."""
        self.how = ""
        if self.reduced and self.chance(30):
            self.running = self.one_of(*self.reduced[:1], *self.reduced)
            self.how = f" running{self.one_of('', ' reverse')}{self.one_of('', '', ' exclusive')}"
            self.ranges[self.running] = self.one_of(self.ranges[self.running], *SIZES)
        wide = [n for n in self.ranges if least(self.ranges[n]) > 1] or [*self.ranges, ""]
        self.lane: str = self.one_of(*wide, *(n for n in wide if n in self.written))
        """The index that accesses like to have innermost."""
        self.shrink()
        self.tidy = self.chance(70)
        """True if accesses are as those of kernels are: strides are those of windows."""
        self.leaves = False
        """True if a point may not count."""
        self.beyond: set[tuple[Linear, Size]] = set()
        """The forms of inputs that may leave their tensors, with the extents there."""
        self.arguments: list[str] = []
        self.operands: dict[str, Numbers] = {}

    @property
    def written(self) -> list[str]:
        """The indices for each value of which there is an element of the output."""
        return [*self.free, *[self.running] * bool(self.running)]

    # ** choices **

    def shuffled(self, names: Sequence[str]) -> list[str]:
        """Return the indices in any order; in most cases the lanes' index is the last."""
        order = list(names)
        self.random.shuffle(order)
        if self.chance(60 if self.kind == "=" else 90):
            order.sort(key=lambda name: name == self.lane)
        return order

    # ** the index space **

    def index(self, name: str, sizes: Sequence[int]) -> str:
        self.ranges[name] = self.one_of(*sizes)
        if self.sizes.symbols and self.chance(60):
            self.ranges[name] = draw_size(self, self.sizes)
        return name

    def shrink(self) -> None:
        while self.sizes.elements(self.ranges.values()) > MOST_POINTS:
            others = [n for n in self.ranges if n != self.lane] or [*self.ranges]
            name = max(others, key=lambda n: self.sizes.greatest(self.ranges[n]))
            range_ = self.ranges[name]
            self.ranges[name] = least(range_) if is_open(range_) else range_ // 2

    def extent(self, form: Linear) -> Size:
        low, high = form.bounds(self.ranges)
        return high - low + 1

    def from_zero(self, form: Linear) -> Linear:
        """The form moved so that its least value is 0."""
        return form - form.bounds(self.ranges)[0]

    # ** accesses **

    def forms(self, names: Sequence[str]) -> list[Linear]:
        """A form for each dimension of an operand."""
        rest = self.shuffled([n for n in names if self.chance(80)])
        found: list[Linear] = []
        while rest:
            name = rest.pop(0)
            strides = STRIDES if not self.tidy or self.chance(8) else (1,)
            form = Linear.of(name, self.one_of(*strides) if name != self.lane else 1)
            if rest and self.chance(30):
                form = self.window(name, rest)
            found.append(form)
        if not self.tidy and self.chance(20):
            other = Linear.of(self.one_of(*names)) if names else Linear()
            found.insert(self.between(0, len(found)), self.one_of(Linear(), other))
        return found

    def window(self, name: str, rest: list[str]) -> Linear:
        """A form of an index and another one: rather a free and a reduced one."""
        others = [n for n in rest if (n in self.reduced) != (name in self.reduced)]
        other = self.one_of(*(others or rest))
        rest.remove(other)
        if not self.tidy:
            return sum((Linear.of(n, self.one_of(*STRIDES)) for n in (name, other)), Linear())
        free, reduced = sorted((name, other), key=lambda n: n in self.reduced)
        return Linear.of(free, self.one_of(1, 1, 1, 2, 2, 3, 4)) + Linear.of(
            reduced, self.one_of(1, 1, 2)
        )

    def access(self, names: Sequence[str], *, padded: bool) -> tuple[Access, Shape]:
        """An access, and the shape of its tensor: with ``padded`` it may leave it."""
        accesses: list[Linear] = []
        shape: list[Size] = []
        for form in self.forms(names):
            start, whole = 0, self.extent(form)
            extent = whole
            if padded and self.chance(50 if len(form.terms) > 1 else 20):
                self.leaves = True
                start = self.between(-3, 1)
                extent += self.between(-2, 2)
            elif self.chance(15):
                start = self.between(0, 2)
                extent += self.between(0, 2)
            accesses.append(self.from_zero(form) + start)
            shape.append(self.positive(extent + start, whole))
            if padded:
                self.beyond.add((accesses[-1], shape[-1]))
        if self.sizes.elements(shape) > MOST_ELEMENTS:
            return self.access(names[1:], padded=padded)
        return tuple(accesses), tuple(shape)

    @staticmethod
    def positive(size: Size, whole: Size) -> Size:
        """A size that is 1 at least; the whole, where an open one might be less."""
        if least(size) >= 1:
            return size
        return whole if is_open(size) else 1

    def output(self, *, covers: bool) -> tuple[Access, Shape]:
        """The output's access: each point of the free indices is another element."""
        names, forms = self.shuffled(self.written), list[Linear]()
        while names:
            name = names.pop(0)
            form = Linear.of(name, -1 if not self.tidy and self.chance(10) else 1)
            stride = self.ranges[names[0]] if names else None
            if isinstance(stride, int) and self.chance(8):
                form = Linear.of(name, stride) + Linear.of(names.pop(0))
            forms.append(self.from_zero(form))
        if covers:
            return tuple(forms), tuple(map(self.extent, forms))
        lane = Linear.of(self.lane)
        forms = [f * self.one_of(1, 2 - (f == lane)) + self.between(0, 3) for f in forms]
        forms.insert(self.between(0, len(forms)), Linear((), self.between(0, 1)))
        return tuple(forms), tuple(self.extent(f) + f.constant + self.between(0, 2) for f in forms)

    def cut(self, access: Access, shape: Shape) -> Shape:
        """The shape of an output, perhaps without the last elements of a dimension, unless an
        input leaves its tensor where the output would."""
        moved = [
            d
            for d, form in enumerate(access)
            if form.terms and least(shape[d]) > 1 and not form.coefficient(self.running)
        ]
        if not moved or not self.chance(15):
            return shape
        dim = self.one_of(*moved)
        extent = self.positive(shape[dim] - self.between(1, 3), shape[dim] - 1)
        if (access[dim], extent) in self.beyond:
            return shape
        return (*shape[:dim], extent, *shape[dim + 1 :])

    def constraint(self) -> str:
        """Return a constraint for ``where``."""
        self.leaves = True
        names = self.random.sample(sorted(self.ranges), self.between(1, min(3, len(self.ranges))))
        form = Linear()
        for name in names:
            form += Linear.of(name, self.one_of(1, 1, 1, 2, -1))
        span = self.extent(form)
        few = least(span)
        low, extent = self.between(-1, few // 2), self.between(1, few)
        if is_open(span):  # from the first or from the last on, and of few or of nearly all
            low = self.one_of(low, span - 1 - max(0, low))
            extent = self.one_of(extent, span - self.between(0, few - 1))
        return f"{self.from_zero(form) - low} < {extent}"

    # ** tensors **

    def type(self, element: Attribute, shape: Sequence[Size]) -> TensorType[Any]:
        """The type of a tensor in some layout."""
        type, rank = tensor(element, shape), len(shape)
        if rank < 2 or self.chance(85 if self.tidy else 60):
            return type
        order = self.random.sample(range(rank), rank)
        layout = Layout("packed", tuple(Piece(d) for d in order))
        if rank > 2 and self.chance(50):
            layout = Layout("nhwc")
        return placed(type, PlaceAttr.get("x86", precision_of(element), layout))

    def argument(self, numbers: Numbers, element: Attribute) -> tuple[str, str]:
        """A new argument of the kernel: its name and its type."""
        name = f"%p{len(self.arguments)}"
        can_be_constant = not any(map(is_open, numbers.shape))
        mark = " {tile.constant}" if can_be_constant and self.chance(40) else ""
        type = self.type(element, numbers.shape)
        self.arguments.append(f"{name}: {type}{mark}")
        self.operands[name[1:]] = numbers
        return name, str(type)

    def numbers(self, shape: Shape, element: Attribute) -> Numbers:
        """Small integers; powers of two where they are multiplied."""
        choices = (-1, 1, 1, 2) if self.kind == "*" else (-3, -2, -1, 0, 1, 2, 3)
        return self.drawn(shape, element, choices)

    def drawn(self, shape: Shape, element: Attribute, choices: Sequence[int]) -> Numbers:
        return Numbers(shape, dtype_of(element), choices, self.random.getrandbits(32))

    def operand(
        self, names: Sequence[str], element: Attribute, *, padded: bool = False
    ) -> tuple[str, str]:
        """A new argument as an operand: with its access, and its type."""
        forms, shape = self.access(names, padded=padded)
        name, type = self.argument(self.numbers(shape, element), element)
        return f"{name}{print_access(forms)}", type

    # ** bodies **

    def combine(self, body: Body, inputs: int) -> None:
        """The body on so many inputs of the element type."""
        a = [body.argument() for _ in range(inputs)]
        if not a:
            body.last = body.constant(1)
        elif len(a) == 1:
            body.last = a[0]
            if self.chance(30):
                body.op("mul", a[0], a[0])
        else:
            more = () if self.kind == "*" else ("add", "sub", "max")
            body.op(self.one_of(*["mul"] * 9, *more), a[0], a[1])
        if len(a) > 2:
            body.op("mul" if self.kind == "*" else "add", body.last, a[2])

    def add_index(self, body: Body) -> None:
        """Add an index's value."""
        number = body.define(f'tile.index "{self.one_of(*self.ranges)}"')
        kind = i64 if is_float(self.element) else self.element
        number = body.define(f"arith.index_cast {number} : index to {kind}")
        if is_float(self.element):
            number = body.define(f"arith.sitofp {number} : i64 to {self.element}")
        body.op("add", body.last, number)

    def add_extract(self, body: Body) -> tuple[str, str]:
        """Add an element at a computed coordinate, which an operand holds; that operand."""
        name = self.one_of(*self.ranges, *(n for n in self.ranges if n == self.lane))
        rows = self.one_of(3, 7)
        shape = (rows, self.ranges[name] + self.between(0, 1))
        table, type = self.argument(self.numbers(shape, self.element), self.element)
        forms, at_shape = self.access([n for n in self.ranges if n != name], padded=False)
        at, at_type = self.argument(self.drawn(at_shape, i64, range(rows)), i64)
        row = body.define(f"arith.index_cast {body.argument(i64)} : i64 to index")
        column = body.define(f'tile.index "{name}"')
        element = body.define(f"tile.extract {table}[{row}, {column}] : {type} -> {self.element}")
        body.op("add", body.last, element)
        return f"{at}{print_access(forms)}", at_type

    def widen(self, body: Body) -> None:
        wider = WIDER[self.element]
        last = f"{body.name('widen')} {body.last} : {body.element} to {wider}"
        body.last, body.element, self.element = body.define(last), wider, wider

    def post(self, body: Body) -> list[tuple[str, str]]:
        """The operands of a post body."""
        body.last = body.argument()
        operands: list[tuple[str, str]] = []
        for _ in range(self.between(0, 2)):
            operands.append(self.operand(self.written, self.element))
            body.op(self.one_of("add", "mul", "max"), body.last, body.argument())
        if self.chance(40):
            body.op("max", body.last, body.constant(0))
        return operands

    def finish(self) -> Statement:
        """The statement's text."""
        inputs = self.one_of(0, *[1] * 7, *[2] * 14, 3)
        constrained = self.chance(40 if self.kind == "=" else 70)
        operands = [
            self.operand([*self.free, *self.reduced], self.element, padded=constrained)
            for _ in range(inputs)
        ]
        body = Body(self.element)
        self.combine(body, inputs)
        if self.kind != "*" and self.ranges and self.chance(10):
            self.add_index(body)
        if self.kind != "*" and self.ranges and self.chance(10):
            operands.append(self.add_extract(body))
        if self.element in WIDER and self.chance(10):
            self.widen(body)
        count = self.one_of(0, 0, 1, 2) if constrained and self.ranges else 0
        where = [self.constraint() for _ in range(count)]
        post = Body(self.element)
        posts = self.post(post) if self.chance(30) else []
        has_init = self.chance(20)
        access, whole = self.output(covers=not has_init)
        shape = self.cut(access, whole)
        out = self.type(self.element, shape)
        words = [
            f"tile.contract {self.kind} [{self.index_text()}]",
            f"({', '.join(text for text, _ in operands)})",
            f"post ({', '.join(text for text, _ in posts)})" if post.last else "",
            "init %e" if has_init else "",
            f"-> {print_access(access)}",
            f"where [{', '.join(where)}]" if where else "",
            self.default(),
            f"{body}, {post}" if post.last else f"{body}",
        ]
        contract = " ".join(word for word in words if word)
        lines = [
            f"tile.kernel @k({', '.join(self.arguments)}) -> ({out}) {{",
            *[f"  %e = tile.empty : {out}"] * has_init,
            f"  %r = {contract} : {out}",
            f"  tile.return %r : {out}\n}}",
        ]
        result = self.numbers(shape, self.element)
        return Statement("\n".join(lines), self.operands, result, self.sizes)

    def index_text(self) -> str:
        groups = [
            ", ".join(
                f"{name}: {self.ranges[name]}{self.how if name == self.running else ''}"
                for name in names
            )
            for names in (self.free, self.reduced)
        ]
        return " | ".join(groups) if self.reduced else groups[0]

    def default(self) -> str:
        if self.kind != "=" or not self.leaves:
            return ""
        return f"default {5.0 if is_float(self.element) else 5} : {self.element}"


def statement(random: Random, sizes: OpenSizes = CLOSED) -> Statement:
    """A random statement, whose sizes may be open."""
    return Sketch(random, sizes).finish()
