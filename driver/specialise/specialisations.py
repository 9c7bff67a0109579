"""The table of specialised programs of one signature: guards on sizes and values, each with a
program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from tessella.driver.specialise.by_value import Sizes, values_of
from tessella.driver.specialise.key import Asked, Key
from tessella.driver.specialise.open_sizes import (
    MAX_VERSIONS,
    OF_MODELS,
    Openness,
    OpenSizes,
    with_names,
)
from tessella.driver.specialise.programs import ProgramTable
from tessella.runtime.model import MAX_KNOWN, Shapes
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.support import fork
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import UnknownValueError, UnsupportedError
from tessella.support.logs import debug
from tessella.support.sizes import Symbol, symbols_of
from tessella.support.tables import remembered

Array = npt.NDArray[Any]

MOST_REMEMBERED = 512
"""The most bytes of the value of a shape-determining input by which keys of programs are cached.
For a larger value, each call determines the key."""

REFUSED = UndecidedSizeError, UnsupportedError
"""The errors which say that a program cannot be compiled with symbols.

Other errors have other causes: exceptions of signal handlers, lack of memory, and bugs.
"""

V = TypeVar("V")


class Specialisations(Generic[V]):
    """A bounded table of programs for one signature.

    A program has a guard: numbers and ranges of sizes, and the values of shape-determining inputs.
    The most specific guard that a call meets decides which program serves it. A program that is
    missing is compiled.
    """

    def __init__(
        self,
        inputs: Sequence[ValueInfo],
        openness: Openness,
        *,
        symbols: Sequence[Symbol] = (),
        determining: Set[str] = frozenset(),
        elements: Mapping[str, Dimensions] | None = None,
        unnamed: Set[str] = frozenset(),
        starts: Sequence[int] = OF_MODELS,
        most: int,
    ) -> None:
        """``symbols`` are those of a source that is symbolic already; ``determining`` names the
        shape-determining inputs, and ``elements`` are the known elements of some of them. ``most``
        is the number of programs for other guards than ranges of sizes. See ``OpenSizes`` for
        ``unnamed`` and ``starts``."""
        elements = elements or {}
        names = determining | elements.keys()
        self._inputs = inputs
        self._by_value = [i for i, info in enumerate(inputs) if info.name in names]
        listed = {i: elements[x.name] for i, x in enumerate(inputs) if x.name in elements}
        if openness != "fixed":
            listed = with_names(inputs, self._by_value, listed)
        self._unnamed = frozenset[str]() if openness == "fixed" else unnamed
        self._sizes = [OpenSizes(inputs, openness, symbols, starts, listed, unnamed)]
        """Which sizes are symbolic. If unnamed dimensions that have been equal so far differ in a
        call, a further entry is added for calls like it."""
        self._keys = self.sizes.keys
        self._most = most
        self.programs: ProgramTable[V] = ProgramTable(most)
        self._lock = fork.Lock()
        """The lock that protects ``_sizes``, which calls change."""
        is_symbolic = any(isinstance(d, str) for info in inputs for d in info.shape)
        self.has_one = not (names or is_symbolic)
        """True if one program serves all calls."""

    @property
    def sizes(self) -> OpenSizes:
        """The sizes that are symbolic in the latest programs."""
        return self._sizes[-1]

    def find(self, shapes: Shapes, arrays: Sequence[Array]) -> V | None:
        """Return the program for a call if the guard that the call meets is cached and has a
        program; otherwise None."""
        asked = self._asked(shapes, arrays) if self._by_value else shapes
        key = None if asked is None else self._keys.get(asked)
        last = self.programs.last
        if last is not None and last[0] is key:
            return last[1]
        return None if key is None else self.programs.find(key)

    def get(
        self,
        shapes: Shapes,
        arrays: Sequence[Array | None],
        make: Callable[[Key, OpenSizes], V],
        *,
        is_own: bool = False,
    ) -> V:
        """Return the program for inputs with these shapes and, if shapes depend on them, these
        values, which are None if they are unknown.

        ``make`` compiles a missing program for a key, given which sizes are symbolic. If it raises
        one of REFUSED, the guard is narrowed. ``is_own`` requests a program for exactly these
        shapes. Raises UnknownValueError if a value is missing, and the errors of ``make``.
        """
        while True:
            with self._lock:
                sizes = self._sizes_of(shapes)
                key = self._key(sizes, shapes, arrays, is_own)
            try:
                return self.programs.get(key, partial(self._made, make, key, sizes))
            except REFUSED as error:
                # An error in the model is an error with concrete sizes too.
                with self._lock:
                    if not sizes.narrow(key.made, error):
                        raise
                debug("compile", f"compiled for fewer sizes: {error}")

    def _made(self, make: Callable[[Key, OpenSizes], V], key: Key, sizes: OpenSizes) -> V:
        self.programs.most = self._most + min(MAX_VERSIONS, sizes.count)
        return make(key, sizes)

    def _key(
        self, sizes: OpenSizes, shapes: Shapes, arrays: Sequence[Array | None], is_own: bool
    ) -> Key:
        """Return the key of the program that serves these inputs."""
        asked = None if is_own else self._asked(shapes, arrays)
        if asked is None:
            return self._new_key(sizes, shapes, arrays, is_own)
        make = partial(self._new_key, sizes, shapes, arrays)
        return remembered(self._keys, asked, MAX_KNOWN, make)

    def _asked(self, shapes: Shapes, arrays: Sequence[Array | None]) -> Asked | None:
        """Return the shapes and values by which the key of a program is cached; None if the values
        of shape-determining inputs are unknown or large."""
        if not self._by_value:
            return shapes
        values: list[bytes] = []
        for index in self._by_value:
            array = arrays[index]
            if array is None or array.nbytes > MOST_REMEMBERED:
                return None
            values.append(array.tobytes())
        return shapes, tuple(values)

    def _new_key(
        self,
        sizes: OpenSizes,
        shapes: Shapes,
        arrays: Sequence[Array | None],
        is_own: bool = False,
    ) -> Key:
        if is_own and not self._by_value:
            sizes.make_own(shapes)
        if not self._by_value:
            return Key(sizes.made(shapes))
        known = self._known(arrays)
        given = tuple(
            (*shape, *known[i].reshape(-1).tolist()) if i in sizes.ranks else shape
            for i, shape in enumerate(shapes)
        )
        if is_own:
            sizes.make_own(given)
        made = sizes.made(given, tuple(i for i in known if i not in sizes.ranks))
        elements = {i: made[i][rank:] for i, rank in sizes.ranks.items()}
        symbolic = {
            i: Sizes(i, self._inputs[i].name, shapes[i], each)
            for i, each in elements.items()
            if symbols_of(each)
        }
        others = {i: array for i, array in known.items() if i not in symbolic}
        return Key(made, values_of(self._inputs, others), tuple(symbolic.values()))

    def _known(self, arrays: Sequence[Array | None]) -> Mapping[int, Array]:
        """Return the values of the shape-determining inputs, by index. Raises UnknownValueError if
        one is unknown."""
        missing = [self._inputs[i].name for i in self._by_value if arrays[i] is None]
        if missing:
            raise UnknownValueError("a value on which shapes depend", missing)
        return {i: array for i in self._by_value if (array := arrays[i]) is not None}

    def _sizes_of(self, shapes: Shapes) -> OpenSizes:
        """Return which sizes are symbolic in programs for ``shapes``."""
        if not self._unnamed:
            return self.sizes
        found = next((each for each in self._sizes if each.are_equal(shapes)), None)
        if found is None or not found.has_calls:
            found = self.sizes.divided(self._inputs, shapes)
            self._sizes = [*(each for each in self._sizes if each.has_calls), found]
        return found
