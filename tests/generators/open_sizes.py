"""Random sizes that are open, and numbers for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from xdsl.dialects.builtin import ModuleOp

from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.support.sizes import MOST, Size, Symbol, bounds_of, symbols_of, value_of
from tests.generators.choices import Choices

RANGES = ((2, 15), (2, 15), (16, MOST), (16, 64), (3, 9), (20, 40))
"""Of symbols: those of programs for few and for many, and bounds that users give."""
MOST_MORE = 24
"""How far above its least value a symbol is in a run."""

Values = Mapping[str, int]
"""Numbers for symbols, by name."""


def least(size: Size) -> int:
    """Return the minimum of a size."""
    return bounds_of(size)[0]


@dataclass(frozen=True)
class OpenSizes:
    """Symbols, and the numbers that they have in runs."""

    symbols: Sequence[Symbol] = ()
    runs: Sequence[Values] = ({},)

    def greatest(self, size: Size) -> int:
        """Return the maximum of a size over the runs."""
        return max(value_of(size, values) for values in self.runs)

    def elements(self, shape: Iterable[Size]) -> int:
        """Return the maximum number of elements of a tensor over the runs."""
        return self.greatest(math.prod(shape))

    def at(self, values: Values) -> OpenSizes:
        """Symbols that have these values only, so that all sizes are numbers."""
        symbols = [Symbol(s.name, values[s.name], values[s.name]) for s in self.symbols]
        return OpenSizes(symbols, [values])

    def parse(self, text: str) -> ModuleOp:
        """A module that declares the symbols."""
        declared = ", ".join(f"#nn.symbol<{s}, {s.low} to {s.high}>" for s in self.symbols)
        head = f" attributes {{symbols = [{declared}]}}" if self.symbols else ""
        whole = f"builtin.module{head} {{\n{text}\n}}"
        module = LocatedParser(stage_context(), whole, "text").parse()
        assert isinstance(module, ModuleOp), module
        module.verify()
        return module


CLOSED = OpenSizes()
"""Numbers only."""


def open_sizes(random: Random, count: int = 3) -> OpenSizes:
    """Return one symbol or two, for this number of runs: the first run has the least sizes."""
    choices = Choices(random)
    symbols = [Symbol(name, *choices.one_of(*RANGES)) for name in "nm"[: choices.between(1, 2)]]
    more = [0, *(choices.between(1, MOST_MORE) for _ in range(count - 1))]
    runs = [{s.name: _near(choices, s, n) if n else s.low for s in symbols} for n in more]
    return OpenSizes(symbols, runs)


def _near(choices: Choices, symbol: Symbol, more: int) -> int:
    """A value of a symbol up to so far above the least one."""
    return choices.between(symbol.low, min(symbol.high, symbol.low + more))


def draw_size(choices: Choices, sizes: OpenSizes) -> Size:
    """A size that depends on symbols, and is never 0."""
    n = choices.one_of(*sizes.symbols).size
    m = choices.one_of(*sizes.symbols).size
    k = choices.between(1, 5)
    found: Size = choices.one_of(
        *[n] * 6, n + k, n + m, n - 1, k * n, n // 2, (n + k) // (k + 1), 2 * n - 1, n * m,
        k + 2 * (n // 4),
    )  # fmt: skip
    return found if least(found) >= 1 else n


def is_open(size: Size) -> bool:
    """Return whether a size depends on symbols."""
    return bool(symbols_of([size]))
