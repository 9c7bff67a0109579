"""Dynamic dimensions of a model: which of them are symbolic in its programs.

A program is compiled for a range of each symbol. Sizes 0 and 1 have specialised programs, as a
dimension of 1 broadcasts. Few and many rows are different ranges, as tiles for many rows are wasted
on few. A decision that changes at one size, such as whether a slice ends before its dimension does,
divides a range there. A decision whether one symbol equals a sum of others, such as the length of a
mask and the lengths that it covers, replaces the symbol by that sum in programs for sizes with this
relation. A size that a program cannot leave symbolic is compiled as a number, and the reason is
recorded.

The elements of a shape-valued input are sizes like its dimensions, and follow them. An element that
is no size, such as -1, is a number.

Unless users specify sizes, the first sizes have a specialised program. The dimensions that differ
in a later call become symbolic from then on: many models are called with one size only. Dimensions
without a name become symbolic in the same way. Those of them that have always been equal share a
symbol.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Literal, cast

from tessella.driver.specialise.sums import Sums
from tessella.runtime.model import MAX_KNOWN, Shapes
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import InputError, OptionError
from tessella.support.names import identifiers
from tessella.support.sizes import (
    MOST,
    Size,
    Symbol,
    expression,
    symbols_of,
    value_of,
    with_symbols,
)
from tessella.support.tables import remembered

if TYPE_CHECKING:
    from tessella.driver.specialise.key import Asked, Key, ProgramShapes

Bounds = tuple[int, int]
"""The least and the greatest size of a dimension."""

Dims = Mapping[str, int | Bounds]
"""Sizes, or bounds of sizes, by the names of dynamic dimensions."""

Openness = Mapping[str, Bounds] | Literal["auto", "fixed"]
"""The bounds of dimensions, by name: all dynamic dimensions are symbolic from the start, those
without bounds with any size.

`auto`: dimensions with more than one size so far are symbolic. `fixed`: no dimension is.
"""

ANY_SIZE: Bounds = 0, MOST
FEW, MANY, LONG, VAST = 2, 16, 1 << 12, 1 << 18
"""The first size of each range of sizes: for few rows, for many rows, for arrays so long that the
best loops depend on the caches, and for arrays so long that threads divide even a single
operation."""
OF_MODELS, OF_ARRAYS = (FEW, MANY), (FEW, MANY, LONG, VAST)
"""The first sizes of ranges for the dimensions of models, such as batches and sequences, and for
those of arrays."""
MAX_VERSIONS = 64
"""The most programs for size ranges that a model caches."""
MOST_TURNS = 4
"""The maximum number of additional ranges of a dimension. Each begins at a size where a decision of
the compiler changes."""


class OpenSizes:
    """The dynamic dimensions of a signature: which of their sizes are symbolic in programs, and in
    which ranges."""

    def __init__(
        self,
        inputs: Sequence[ValueInfo],
        openness: Openness,
        made_for: Sequence[Symbol] = (),
        starts: Sequence[int] = OF_MODELS,
        elements: Mapping[int, Dimensions] | None = None,
        unnamed: Set[str] = frozenset(),
    ) -> None:
        """``made_for`` are the symbols of a source with sizes that are symbolic already, ``starts``
        the first sizes of ranges, ``elements`` the elements of shape-valued inputs by index.

        ``unnamed`` has the names of dimensions that the model does not name: they only say which
        dimension of which input it is. Unless ``openness`` is `fixed`, these dimensions are
        symbolic once they vary.
        """
        self._given = tuple(inputs), openness, made_for, starts, elements
        self._unnamed = unnamed
        self._ranges = starts
        self._is_fixed = openness == "fixed" and not made_for
        bounds: Mapping[str, Bounds] = {} if isinstance(openness, str) else openness
        elements = elements or {}
        self.ranks: Mapping[int, int] = {i: len(inputs[i].shape) for i in elements}
        """The rank of each shape-valued input, whose elements follow its dimensions."""
        self._inputs = [
            replace(info, shape=(*info.shape, *elements.get(i, ())))
            for i, info in enumerate(inputs)
        ]
        every = (*(info.shape for info in inputs), *elements.values())
        names = dict.fromkeys(d for sizes in every for d in sizes if isinstance(d, str))
        unknown = sorted(bounds.keys() - names.keys())
        if unknown:
            raise OptionError(
                f"the model has no open dimension {', '.join(map(repr, unknown))}",
                expected=f"some of {', '.join(map(repr, names)) or 'none'}",
                hint="the signature names them: model.inputs",
            )
        self._names = dict(zip(names, identifiers(names), strict=True))
        self._is_auto = openness == "auto" and not made_for
        """True if each dimension is a constant in programs until calls have different sizes for
        it."""
        learnt: Set[str] = names.keys() if self._is_auto else unnamed
        self._learnt: Set[str] = frozenset[str]() if self._is_fixed else learnt
        """The dimensions that are constants in programs until calls have different sizes for
        them."""
        self._derived = {
            name: size for name in names if (size := _derived(name, self._names)) is not None
        }
        """The sizes of dimensions, by name, with names that are expressions of other names, such as
        ``past + 1``."""
        dimensions = {d for info in inputs for d in info.shape}
        self._values = names.keys() - dimensions
        """Names of elements of shape-valued inputs that are not names of dimensions."""
        self.keys: dict[Asked, Key] = {}
        """The keys of programs, by the shapes and values that they serve. The table is cleared when
        another program may serve shapes in it."""
        self._versions: dict[tuple[Size, ...], ProgramShapes] = {}
        """The shapes that programs are compiled for, by the ranges of dimensions."""
        self._own: set[ProgramShapes] = set()
        """Shapes with specialised programs."""
        self._seen: dict[str, int] = {}
        """The sizes of the first shapes, by the name of the dimension."""
        self._made_for = {symbol.name: symbol for symbol in made_for}
        self._bounds = {name: bounds.get(name, self._widest(name)) for name in names}
        self._open = set[str]() if self._is_fixed else set(names.keys() - self._learnt)
        """The symbolic dimensions."""
        self._turns: dict[str, list[int]] = {}
        """The first sizes of the additional ranges, where decisions of the compiler change, by the
        symbol's name in programs."""
        self._sums = Sums()
        self._numbers: dict[tuple[str, int], str] = {}
        """The reason why the sizes of a range are compiled as numbers, by the symbol's name in
        programs and the least size of the range."""

    def forget(self) -> None:
        """Clear the cache of which program serves which shapes."""
        self.keys.clear()

    @property
    def names(self) -> Sequence[str]:
        """The names of dimensions and elements that may be symbolic, except names that are
        expressions of other names."""
        return [name for name in self._names if name not in self._derived]

    def made(self, shapes: Shapes, by_value: tuple[int, ...] = ()) -> ProgramShapes:
        """Return the shapes that a program serving ``shapes`` is compiled for: sizes are numbers or
        symbols.

        The shape of a shape-valued input is followed by its elements, in ``shapes`` and in the
        result. ``by_value`` has the indices of other shape-determining inputs, which keep their
        sizes. Raises InputError for a size out of bounds.
        """
        sizes = self._sizes(shapes)
        if self._learnt:
            self._look_at(shapes, sizes)
        if shapes in self._own:
            return shapes
        fixed = {d for i in by_value for d in self._inputs[i].shape}
        if all(self._seen[name] == sizes[name] for name in self._learnt):
            fixed |= self._learnt
        has_sums = self._derived or self._sums.known
        numbers = {self._names[name]: size for name, size in sizes.items()} if has_sums else {}
        ranges: dict[str, Size] = {}
        for name, size in sizes.items():
            ranges[name] = size if name in fixed else self._range(name, size)
        for name, derived in self._derived.items():
            expected = value_of(derived, numbers)
            if self._made_for and expected != sizes[name]:
                raise InputError(
                    f"the dimension {name!r} does not fit the others",
                    expected=str(expected),
                    found=str(sizes[name]),
                )
            if name not in fixed and expected == sizes[name]:
                ranges[name] = derived
        if self._sums.known:
            ranges |= self._related(sizes, numbers, fixed)
        key = tuple(ranges.values())
        return remembered(self._versions, key, MAX_KNOWN, lambda: self._version(shapes, ranges))

    def _related(
        self, sizes: Mapping[str, int], numbers: Mapping[str, int], fixed: Set[int | str]
    ) -> Mapping[str, Size]:
        """Return, for each dimension that equals a sum of other dimensions at these sizes, the sum
        by the name of the dimension."""
        names = (n for n in self._open - fixed if sizes[n] >= FEW)
        found = {n: self._sums.equal(self._names[n], sizes[n], numbers) for n in names}
        return {name: equal for name, equal in found.items() if equal is not None}

    def _version(self, shapes: Shapes, ranges: Mapping[str, Size]) -> ProgramShapes:
        """Return the shapes that a program is compiled for with these ranges. Derived sizes become
        expressions of the symbols of the ranges."""
        plain = {self._names[name]: size for name, size in ranges.items()}
        # a derived size may have a symbol that equals a sum
        own = {symbol: with_symbols(size, plain) for symbol, size in plain.items()}
        found = {name: with_symbols(size, own) for name, size in ranges.items()}
        return tuple(
            tuple(
                found[d] if isinstance(d, str) else size
                for d, size in zip(info.shape, shape, strict=True)
            )
            for info, shape in zip(self._inputs, shapes, strict=True)
        )

    def _look_at(self, shapes: Shapes, sizes: Mapping[str, int]) -> None:
        """Make those dimensions symbolic that have other sizes than in the first shapes. The first
        shapes get a specialised program."""
        if not self._seen:
            self._seen = {name: sizes[name] for name in self._learnt}
            self.make_own(shapes)
        elif shapes not in self._own:
            varied = {name for name, size in self._seen.items() if sizes[name] != size}
            if varied - self._open:
                self._open |= varied
                self.forget()

    def make_own(self, shapes: Shapes) -> None:
        """Let these shapes have a specialised program. Do nothing unless ``dims`` is `auto`."""
        if self._is_auto:
            self._own.add(shapes)
            self._seen = self._seen or dict(self._sizes(shapes))
            self.forget()

    @property
    def has_calls(self) -> bool:
        """True if the sizes of a call are known."""
        return bool(self._seen)

    def are_equal(self, shapes: Shapes) -> bool:
        """Return whether unnamed dimensions that share a symbol have equal sizes."""
        sizes: dict[int | str, int] = {}
        return all(
            sizes.setdefault(dim, size) == size
            for info, shape in zip(self._inputs, shapes, strict=True)
            for dim, size in zip(info.shape, shape, strict=False)
            if dim in self._unnamed
        )

    def divided(self, places: Sequence[ValueInfo], shapes: Shapes) -> OpenSizes:
        """Return a copy of this object with one symbol for each set of unnamed dimensions that have
        been equal so far and are equal in ``shapes``. In ``places``, unnamed dimensions have
        distinct names."""
        found: dict[tuple[int | str, int], str] = {}

        def name(place: int | str, dim: int | str, size: int) -> int | str:
            if not isinstance(place, str) or dim not in self._unnamed:
                return dim
            return found.setdefault((dim if self._seen else 0, size), place)

        columns = zip(places, self._given[0], shapes, strict=True)
        inputs = [
            replace(info, shape=tuple(map(name, info.shape, now.shape, shape)))
            for info, now, shape in columns
        ]
        made = OpenSizes(inputs, *self._given[1:], unnamed=set(found.values()))
        parts = {part: str(dim) for (dim, _), part in found.items()} if self._seen else {}
        made._seen = {part: self._seen[dim] for part, dim in parts.items()}
        made._open |= {part for part, dim in parts.items() if dim in self._open}
        made.keys = self.keys
        return made

    def is_one_of_several(self, made: ProgramShapes) -> bool:
        """Return whether a program is one of several for size ranges, which share packed
        weights."""
        return bool(self._open) and self.count > 1 and made not in self._own

    @property
    def count(self) -> int:
        """The number of combinations of size ranges within the bounds: the most programs for them.
        0 without dynamic dimensions, or if all sizes are fixed."""
        if self._is_fixed or not self._names:
            return 0
        alone = self._values | self._unnamed
        names = (n for n in self.names if n not in alone or n in self._open)
        return prod(len(self._starts(name)) for name in names)

    def versions(self) -> Mapping[ProgramShapes, Shapes]:
        """Return the shapes of all programs within the bounds, each with input shapes that the
        program serves.

        All dynamic dimensions are symbolic from then on. Raises InputError if sizes are fixed, so
        that each set of sizes has a program, or if there are more programs than a model caches.
        """
        if self._is_fixed and self._names:
            raise InputError(
                "the sizes of open dimensions are missing, as each set of sizes has a program",
                expected=f"sizes of {', '.join(map(repr, self._names))}",
                hint="model.prepare({name: shape, ..}), or other `dims` than 'fixed'",
            )
        choices = [self._starts(name) for name in self.names]
        if (count := prod(map(len, choices))) > MAX_VERSIONS:
            raise InputError(
                "the open dimensions have more ranges of sizes than programs are kept for",
                expected=f"at most {MAX_VERSIONS}",
                found=f"{count} for {', '.join(map(repr, self.names))}",
                hint="compile for fewer sizes with `dims`; model.prepare({name: shape, ..}, "
                "values) compiles one program",
            )
        self._is_auto, self._learnt, self._open = False, frozenset[str](), set(self._names)
        self._own.clear()
        self.forget()
        served = (self._shapes(choice) for choice in product(*choices))
        return {self.made(shapes): shapes for shapes in served if shapes is not None}

    def _starts(self, name: str) -> Sequence[int]:
        """Return the least size of each range of the dimension ``name``, in order."""
        low, high = self._bounds[name]
        begins = {0, 1, *self._ranges, *self._turns.get(self._names[name], ())}
        return sorted({max(low, start) for start in begins if start <= high})

    def _shapes(self, sizes: Sequence[int]) -> Shapes | None:
        """Return the input shapes if the dimensions ``names`` have these sizes; None if a derived
        size is out of its bounds."""
        known = dict(zip(self.names, sizes, strict=True))
        numbers = {self._names[name]: size for name, size in known.items()}
        derived = {name: value_of(size, numbers) for name, size in self._derived.items()}
        if any(not low <= derived[n] <= high for n in derived for low, high in [self._bounds[n]]):
            return None
        known |= derived
        return tuple(
            tuple(known[d] if isinstance(d, str) else d for d in info.shape)
            for info in self._inputs
        )

    def narrow(self, made: ProgramShapes, error: Exception) -> bool:
        """Make programs less general after an error: replace a symbol by a sum that the error
        names, or split a symbol's range at the value that it names, otherwise replace symbols by
        numbers.

        Returns False if there is no symbol to change. Affects programs compiled from then on.
        """
        found = symbols_of(size for shape in made for size in shape)
        symbols = {symbol for symbol in found if symbol.name not in self._made_for}
        if self._sums.learn(symbols, error):
            self.forget()
            return True
        return self._divide(symbols, error) or self._compile_numbers(symbols, error)

    def _divide(self, symbols: Set[Symbol], error: Exception) -> bool:
        """Start another range at the size where, as ``error`` says, a decision of the compiler
        changes.

        Returns False if the error names no size in the range of a symbol, or if the dimension has
        ``MOST_TURNS`` further ranges already.
        """
        if not isinstance(error, UndecidedSizeError) or error.turn is None:
            return False
        about = [each for each in symbols if error.symbols == frozenset([each.name])]
        if not about or not about[0].low < error.turn <= about[0].high:
            return False
        turns = self._turns.setdefault(about[0].name, [])
        if error.turn in turns:  # another thread has started this range
            return True
        if len(turns) == MOST_TURNS:
            return False
        turns.append(error.turn)
        self.forget()
        return True

    def _compile_numbers(self, symbols: Set[Symbol], error: Exception) -> bool:
        if isinstance(error, UndecidedSizeError) and error.symbols:
            symbols = {symbol for symbol in symbols if symbol.name in error.symbols} or symbols
        # Many shape-determining values are not sizes, but axes, for example.
        values = {self._names[name] for name in self._values}
        symbols = {symbol for symbol in symbols if symbol.name in values} or symbols
        why = str(error).partition("\n")[0]
        self._numbers |= {(symbol.name, symbol.low): why for symbol in symbols}
        self.forget()
        return bool(symbols)

    def closed(self) -> Sequence[str]:
        """Return a text for each range of sizes within the bounds in which each size is compiled as
        a number, not as a symbol, with the reason."""
        found: list[str] = []
        for name in self.names:
            for start in self._starts(name):
                first, last = self._ends(name, start)
                why = self._numbers.get((self._names[name], first))
                if why is not None and first < last and start >= FEW:
                    found.append(f"{name} {Symbol(name, first, last).range}, as {why}")
        return found

    def told(self, made: ProgramShapes) -> Sequence[str]:
        """Return the treatment of each dynamic dimension in a program, and why it is a number."""
        if self._is_fixed:
            return []
        found: dict[str, str] = {}
        for info, shape in zip(self._inputs, made, strict=True):
            for name, size in zip(info.shape, shape, strict=True):
                if isinstance(name, str) and (name in self._open or name not in self._unnamed):
                    found[name] = (
                        self._told_number(name, size)
                        if isinstance(size, int)
                        else self._told_open(name, size)
                    )
        return [f"{name}: {text}" for name, text in found.items()]

    def _told_open(self, name: str, size: Size) -> str:
        [symbol, *others] = symbols_of([size])
        is_own = symbol.name == self._names[name] and not others and name not in self._derived
        return f"open, {symbol.range}" if is_own else str(size)

    def _told_number(self, name: str, size: int) -> str:
        if name not in self._open:
            return f"{size}, not open so far" if self._is_auto and size >= FEW else f"{size}"
        why = self._numbers.get((self._names[name], self._ends(name, size)[0]))
        return f"{size}" if why is None or size < FEW else f"{size}, as {why}"

    def _widest(self, name: str) -> Bounds:
        symbol = self._made_for.get(self._names[name])
        return ANY_SIZE if symbol is None else (symbol.low, symbol.high)

    def _sizes(self, shapes: Shapes) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for info, shape in zip(self._inputs, shapes, strict=True):
            for name, size in zip(info.shape, shape, strict=True):
                if isinstance(name, str):
                    if name in sizes and sizes[name] != size:
                        raise InputError(
                            f"the dimension {name!r} has two sizes",
                            where=f"input {info.name!r}",
                            expected=str(sizes[name]),
                            found=str(size),
                        )
                    sizes[name] = size
        for name, size in sizes.items():
            low, high = self._bounds[name]
            if not low <= size <= high and name not in self._values:
                raise InputError(
                    f"the dimension {name!r} is out of its bounds",
                    expected=f"from {low} to {high}",
                    found=str(size),
                    hint=f"compile it for more: dims={{{name!r}: ({min(low, size)}, "
                    f"{max(high, size)})}}",
                )
        return sizes

    def _range(self, name: str, size: int) -> Size:
        """Return the symbol of the range that contains a size, or the size if it has a specialised
        program."""
        symbol = self._names[name]
        if symbol in self._made_for:
            return self._made_for[symbol].size
        low, high = self._bounds[name]
        first, last = self._ends(name, size)
        is_outside = not low <= size <= high
        if name not in self._open or size < FEW or is_outside or (symbol, first) in self._numbers:
            return size
        return _symbol(symbol, first, last)

    def _ends(self, name: str, size: int) -> Bounds:
        """Return the bounds of the range that contains a size."""
        starts, high = self._starts(name), self._bounds[name][1]
        after = bisect_right(starts, size)
        return starts[max(0, after - 1)], starts[after] - 1 if after < len(starts) else high


@lru_cache(maxsize=1024)
def _symbol(name: str, first: int, last: int) -> Size:
    return Symbol(name, first, last).size


def with_names(
    inputs: Sequence[ValueInfo], indices: Sequence[int], elements: Mapping[int, Dimensions]
) -> Mapping[int, Dimensions]:
    """Return the sizes in the elements of shape-valued inputs, by the index of the input. They are
    those in ``elements``; the elements of any other input in ``indices`` that can be a shape get
    names."""
    every = (*(info.shape for info in inputs), *elements.values())
    taken = {d for sizes in every for d in sizes if isinstance(d, str)}
    found = [i for i in indices if inputs[i].can_be_sizes and i not in elements]
    return {**elements, **{i: _element_names(inputs[i], taken) for i in found}}


def _element_names(info: ValueInfo, taken: set[str]) -> Dimensions:
    """Return names for the elements of an input that are not in ``taken``, and add them to it."""
    name, count = info.name, prod(d for d in info.shape if isinstance(d, int))
    while True:
        names = (name,) if count == 1 else tuple(f"{name}[{i}]" for i in range(count))
        if taken.isdisjoint(names):
            taken.update(names)
            return names
        name += "_"


def check_dims(dims: object) -> Openness:
    """Return a user's value of the option ``dims``, such as ``{"batch": (1, 64), "seq": 128}``,
    with bounds for each size. Raises OptionError if it is not valid."""
    if dims in ("auto", "fixed"):
        return dims
    if not isinstance(dims, Mapping):
        raise _wrong_dims(dims)
    return {_name(name): _bounds(name, given) for name, given in cast(_Given, dims).items()}


_Given = Mapping[object, object]


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise _wrong_dims(name)
    return name


def _bounds(name: object, given: object) -> Bounds:
    bounds: object = (given, given) if isinstance(given, int) else given
    match bounds:
        case [bool(), object()] | [object(), bool()]:
            raise _wrong_dims(given)
        case [int(low), int(high)] if 0 <= low <= high <= MOST:
            return low, high
        case [int(), int()]:
            raise OptionError(
                f"the dimension {name!r} cannot have these bounds",
                expected=f"the least and the greatest size, from 0 to {MOST}",
                found=repr(given),
            )
        case _:
            raise _wrong_dims(given)


def _wrong_dims(found: object) -> OptionError:
    return OptionError(
        "the option 'dims' is wrong",
        expected="sizes or bounds by the names of open dimensions, such as "
        "{'batch': (1, 64), 'seq': 128}; or 'auto', or 'fixed'",
        found=repr(found),
    )


def _derived(name: str, names: Mapping[str, str]) -> Size | None:
    """Return the size of a dimension whose name is a sum or product of others; None for any
    other."""
    try:
        tree = ast.parse(name.replace("floordiv", "//")[:_LONGEST], mode="eval").body
        size = _evaluated(tree, names)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, UndecidedSizeError):
        return None
    return size if isinstance(tree, ast.BinOp) and expression(size) is not None else None


def _evaluated(tree: ast.expr, names: Mapping[str, str]) -> Size:
    match tree:
        case ast.Name():
            return Symbol(names[tree.id], 0, MOST).size
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(tree.left, names), _evaluated(tree.right, names))
        case _:
            raise ValueError


_OPERATORS: Mapping[type[ast.operator], Callable[[Size, Size], Size]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}
_LONGEST = 100
"""The most characters of a size expression that are parsed."""
