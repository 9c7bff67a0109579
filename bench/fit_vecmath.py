"""Fit the polynomials of vector math, and compare them with those of the source.

    python -m bench.fit_vecmath [NAME ...] --coefficients --json results.json

Names are those of ``codegen/vecmath/coefficients.py`` and ``pieces.py``. Each line has the
interval, the degree, the largest error of the source's coefficients and that of those fitted here,
relative to the function, in exact arithmetic.

Polynomials are interpolations at the Chebyshev nodes of the interval. That of erf, and those of
functions by intervals, are least-squares fits whose weights are raised where errors are large,
until these are level (C. L. Lawson, 1961). By intervals, each coefficient is rounded before the
higher ones are fitted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, getcontext

import numpy as np
import numpy.typing as npt

from bench.command import Command, show_machine, write_figures
from tessella.codegen.vecmath import coefficients as source
from tessella.codegen.vecmath import pieces
from tessella.codegen.vecmath.pieces import Pieces
from tessella.runtime.profile import aligned

Floats = npt.NDArray[np.float64]
Exact = Callable[[Decimal], Decimal]
Rounding = type[np.floating]

DIGITS = 60
NEAR = Decimal("1e-18")
"""The distance from 0 at which limits are evaluated."""
PLACES = 200
"""Points of an interval at which errors are measured."""
ROUNDS = 40
"""Least-squares fits until errors are level."""

getcontext().prec = 2 * DIGITS

# ** functions in many digits **


def _series(term: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """Return the sum of a series whose terms are ratios of their predecessors."""
    total, number = term, 0
    while abs(term) > abs(total).scaleb(-DIGITS - 20):
        number += 1
        term *= ratio(number)
        total += term
    return total


def _sin(x: Decimal) -> Decimal:
    return _series(x, lambda n: -x * x / (2 * n * (2 * n + 1)))


def _cos(x: Decimal) -> Decimal:
    return _series(Decimal(1), lambda n: -x * x / (2 * n * (2 * n - 1)))


def _sinh(x: Decimal) -> Decimal:
    return _series(x, lambda n: x * x / (2 * n * (2 * n + 1)))


def _atan(x: Decimal) -> Decimal:
    """The arctangent by halving the angle three times, and a series."""
    for _ in range(3):
        x /= 1 + (1 + x * x).sqrt()
    return 8 * _series(x, lambda n: -x * x * (2 * n - 1) / (2 * n + 1))


def _asin(x: Decimal) -> Decimal:
    return _atan(x / (1 - x * x).sqrt())


def _twice_atanh(x: Decimal) -> Decimal:
    return ((1 + x) / (1 - x)).ln()


PI = 4 * _atan(Decimal(1))
LN2 = Decimal(2).ln()
ROOT = Decimal(2).sqrt()


def _erf(x: Decimal) -> Decimal:
    return 2 / PI.sqrt() * (-x * x).exp() * _series(x, lambda n: 2 * x * x / (2 * n + 1))


def _tanh(x: Decimal) -> Decimal:
    return 1 - 2 / ((2 * x).exp() + 1)


# ** one polynomial **


@dataclass(frozen=True)
class Polynomial:
    """A polynomial P within a function: ``lead(x) + factor(x) P(variable(x))``."""

    function: Exact
    lead: Exact
    factor: Exact
    low: Decimal
    high: Decimal
    """The upper end of the interval of the polynomial's variable."""
    table: Sequence[float]
    element: Rounding
    argument: Exact = lambda t: t
    """Returns x for a value of the variable."""
    counts: Exact | None = None
    """Relative weight of a polynomial error of 1, where it differs from the function's."""
    levelled: bool = False
    """True if the errors are levelled; otherwise the polynomial interpolates."""

    @property
    def degree(self) -> int:
        return len(self.table) - 1

    @property
    def interval(self) -> str:
        return f"{self.low:.5f} to {self.high:.5f}"

    def fitted(self) -> list[float]:
        """Return the coefficients, rounded to the element's type."""
        found = self._levelled() if self.levelled else self._interpolated()
        return [float(self.element(float(c))) for c in found]

    def error(self, table: Sequence[float]) -> float:
        """Return the largest error of the function with these coefficients."""
        exact = [Decimal(c) for c in table]
        errors = (
            (_value(exact, t) - self._wanted(t)) * self._gain(t)
            for t in _chebyshev(self.low, self.high, PLACES)
        )
        return max(abs(float(error)) for error in errors)

    def _wanted(self, t: Decimal) -> Decimal:
        """Return the value that the polynomial approximates."""
        x = self._x(t)
        return (self.function(x) - self.lead(x)) / self.factor(x)

    def _gain(self, t: Decimal) -> Decimal:
        """Return the function's relative error for a polynomial error of 1."""
        x = self._x(t)
        return self.factor(x) / self.function(x) if self.counts is None else self.counts(x)

    def _x(self, t: Decimal) -> Decimal:
        return self.argument(t if abs(t) > NEAR else NEAR)

    def _interpolated(self) -> list[Decimal]:
        """Interpolate by divided differences."""
        nodes = _chebyshev(self.low, self.high, len(self.table))
        differences = list(map(self._wanted, nodes))
        for order in range(1, len(nodes)):
            for i in reversed(range(order, len(nodes))):
                rise = differences[i] - differences[i - 1]
                differences[i] = rise / (nodes[i] - nodes[i - order])
        found = [differences[-1]]
        for node, difference in zip(nodes[-2::-1], differences[-2::-1], strict=True):
            shifted = [Decimal(0), *found]
            found = [a - node * b for a, b in zip(shifted, [*found, Decimal(0)], strict=True)]
            found[0] += difference
        return found

    def _levelled(self) -> Floats:
        places = _chebyshev(self.low, self.high, PLACES)
        t, wanted, gain = (
            np.array([float(of(t)) for t in places]) for of in (Decimal, self._wanted, self._gain)
        )
        return level(_powers(t, len(self.table)), wanted, gain)


def _chebyshev(low: Decimal, high: Decimal, count: int) -> list[Decimal]:
    """Return the Chebyshev nodes of an interval."""
    middle, half = (high + low) / 2, (high - low) / 2
    return [middle + half * _cos(PI * (2 * i + 1) / (2 * count)) for i in range(count)]


def _value(table: Sequence[Decimal], t: Decimal) -> Decimal:
    total = Decimal(0)
    for coefficient in reversed(table):
        total = total * t + coefficient
    return total


def _powers(t: Floats, count: int) -> Floats:
    return np.stack([t**i for i in range(count)], axis=1)


def level(columns: Floats, wanted: Floats, gain: Floats) -> Floats:
    """Return the combination of columns with the least maximal error, by rounds of least
    squares."""
    weights = np.full(len(wanted), 1 / len(wanted))
    best, least = np.zeros(columns.shape[1]), np.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) * gain
        solved = np.linalg.lstsq(columns * scale[:, None], wanted * scale, rcond=None)
        found = np.asarray(solved[0], np.float64)
        errors = np.abs((columns @ found - wanted) * gain)
        if errors.max() < least:
            best, least = found, errors.max()
        weights = weights * errors / (weights @ errors)
    return best


# ** a function by intervals **


@dataclass(frozen=True)
class Intervals:
    """An odd function by intervals, as ``pieces.Pieces`` describes them."""

    function: Exact
    pieces: Pieces

    @property
    def table(self) -> list[float]:
        """Return the source's coefficients, grouped by interval."""
        rows = zip(*self.pieces.coefficients, strict=True)
        return [float(np.float32(c)) for row in rows for c in row]

    @property
    def degree(self) -> int:
        return len(self.pieces.coefficients) - 1

    @property
    def interval(self) -> str:
        return f"{len(self.pieces.coefficients[0])} of {self.pieces.width:.5f}"

    def fitted(self) -> list[float]:
        """Return the coefficients, rounded to f32."""
        return [c for n, _ in enumerate(self.pieces.coefficients[0]) for c in self._fitted(n)]

    def error(self, table: Sequence[float]) -> float:
        """Return the largest error of the function with these coefficients."""
        rows = np.reshape(table, (-1, self.degree + 1))
        return max(self._error(n, row) for n, row in enumerate(rows))

    def _error(self, n: int, row: Floats) -> float:
        r, wanted = self._places(n)
        found = _powers(r, len(row)) @ row + (r if n == 0 else 0.0)
        return float(np.abs(found / wanted - 1).max())

    def _places(self, n: int) -> tuple[Floats, Floats]:
        """Return distances from the middle of an interval, and the function there."""
        middle, half = Decimal(n * self.pieces.width), Decimal(self.pieces.width) / 2
        places = _chebyshev(Decimal(0) if n == 0 else -half, half, PLACES)
        wanted = [float(self.function(middle + r)) for r in places]
        return np.array(list(map(float, places))), np.array(wanted)

    def _fitted(self, n: int) -> list[float]:
        r, wanted = self._places(n)
        columns, left = _powers(r, self.degree + 1), wanted - (r if n == 0 else 0.0)
        gain, found = 1 / np.spacing(wanted.astype(np.float32)).astype(np.float64), [0.0] * (n == 0)
        while len(found) <= self.degree:
            rest = columns[:, len(found) :]
            coefficient = float(np.float32(level(rest, left, gain)[0]))
            found.append(coefficient)
            left = left - rest[:, 0] * coefficient
        return found


# ** all of them **

SMALL = LN2 / 2
"""Arguments of exp after reduction."""
HALF = Decimal("0.5")
WIDER = Decimal("1.0001")
"""The factor by which rounding may take a reduced argument beyond its interval."""
F32, F64 = np.float32, np.float64


def _exp2(x: Decimal) -> Decimal:
    return (x * LN2).exp()


def _log1p(x: Decimal) -> Decimal:
    return (1 + x).ln()


def _log2(x: Decimal) -> Decimal:
    return _log1p(x) / LN2


def _exp(table: Sequence[float], element: Rounding) -> Polynomial:
    """exp: the interval is wider on one side, so that no node is 0."""
    low, high = -SMALL * Decimal("1.0004"), SMALL * WIDER
    return Polynomial(Decimal.exp, lambda r: 1 + r, lambda r: r**2, low, high, table, element)


def _power(table: Sequence[float], element: Rounding, low: Decimal = -HALF) -> Polynomial:
    return Polynomial(_exp2, lambda _: Decimal(1), lambda r: r, low, HALF, table, element)


def _in_square(
    function: Exact,
    lead: Exact,
    power: int,
    most: Decimal,
    table: Sequence[float],
    element: Rounding = F32,
) -> Polynomial:
    """Return a polynomial in the square of an argument up to ``most``."""
    low, high = Decimal(0), most * most
    return Polynomial(
        function, lead, lambda x: x**power, low, high, table, element, argument=Decimal.sqrt
    )


def _in_logarithm(
    function: Exact, lead: Exact, power: int, table: Sequence[float], element: Rounding
) -> Polynomial:
    """Return a polynomial in f, for logarithms of 1 + f from sqrt(1/2) to sqrt(2)."""
    return Polynomial(function, lead, lambda f: f**power, 1 / ROOT - 1, ROOT - 1, table, element)


def _erf_by_logarithm() -> Polynomial:
    """-log(erfc(x)); errors count by their effect on erf."""
    return Polynomial(
        lambda x: -(1 - _erf(x)).ln(),
        _same,
        _same,
        Decimal(0),
        Decimal("3.95"),
        source.ERF,
        F32,
        counts=lambda x: (1 / _erf(x) - 1) * x,
        levelled=True,
    )


def _erfc_by_exponential() -> Polynomial:
    """erfc(x) exp(x^2) (x + 3); errors count by their effect on erf."""
    return Polynomial(
        lambda x: (1 - _erf(x)) * (x * x).exp(),
        lambda _: Decimal(0),
        lambda x: 1 / (x + 3),
        1 / Decimal("8.95"),
        WIDER / 4,
        source.ERFC_64,
        F64,
        argument=lambda t: 1 / t - 3,
        counts=lambda x: (-x * x).exp() / ((x + 3) * _erf(x)),
    )


def _cos_lead(r: Decimal) -> Decimal:
    return 1 - r * r / 2


def _same(x: Decimal) -> Decimal:
    return x


FITS: Mapping[str, Polynomial | Intervals] = {
    "EXP 32": _exp(source.EXP[32], F32),
    "EXP 64": _exp(source.EXP[64], F64),
    "EXP2 32": _power(source.EXP2[32], F32),
    "EXP2 64": _power(source.EXP2[64], F64),
    "SINH 32": _in_square(_sinh, _same, 3, Decimal(1), source.SINH[32]),
    "SINH 64": _in_square(_sinh, _same, 3, Decimal(1), source.SINH[64], F64),
    "LOG": _in_logarithm(_log1p, lambda f: f - f * f / 2, 3, source.LOG, F32),
    "LOG_ATANH": _in_square(_twice_atanh, lambda s: 2 * s, 3, 3 - 2 * ROOT, source.LOG_ATANH, F64),
    "ERF": _erf_by_logarithm(),
    "ERF_64": _in_square(_erf, lambda x: 2 / PI.sqrt() * x, 3, Decimal(1), source.ERF_64, F64),
    "ERFC_64": _erfc_by_exponential(),
    "SIN 32": _in_square(_sin, _same, 3, PI / 4 * WIDER, source.SIN[32]),
    "SIN 64": _in_square(_sin, _same, 3, PI / 4 * WIDER, source.SIN[64], F64),
    "COS 32": _in_square(_cos, _cos_lead, 4, PI / 4 * WIDER, source.COS[32]),
    "COS 64": _in_square(_cos, _cos_lead, 4, PI / 4 * WIDER, source.COS[64], F64),
    "ASIN 32": _in_square(_asin, _same, 3, Decimal("0.5001"), source.ASIN[32]),
    "ASIN 64": _in_square(_asin, _same, 3, Decimal("0.50001"), source.ASIN[64], F64),
    "ATAN 32": _in_square(_atan, _same, 3, Decimal(1), source.ATAN[32]),
    "ATAN 64": _in_square(_atan, _same, 3, (ROOT - 1) * WIDER, source.ATAN[64], F64),
    "POW_ATANH": _in_square(
        _twice_atanh,
        lambda s: 2 * s + 2 * s**3 / 3,
        5,
        (3 - 2 * ROOT) * WIDER,
        source.POW_ATANH,
        F64,
    ),
    "POW_LOG2": _in_logarithm(_log2, lambda f: f / LN2, 2, source.POW_LOG2, F64),
    "POW_EXP2": _power(source.POW_EXP2, F64, Decimal("-0.50015")),
    "pieces.ERF": Intervals(_erf, pieces.ERF),
    "pieces.TANH": Intervals(_tanh, pieces.TANH),
}
"""The source's tables by name, with the element's width if there are several."""


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("fit_vecmath", "Fit the polynomials of vector math.")
    parser.add_names("polynomial", FITS)
    parser.add_argument("--coefficients", action="store_true", help="print the fits")
    return parser.parse(arguments)


@dataclass(frozen=True)
class Row:
    """A polynomial, and the errors of two sets of coefficients."""

    name: str
    interval: str
    degree: int
    source: float
    fitted: float
    coefficients: Sequence[float]


def measure(name: str) -> Row:
    """Fit a polynomial."""
    fit = FITS[name]
    found = fit.fitted()
    return Row(name, fit.interval, fit.degree, fit.error(fit.table), fit.error(found), found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print."""
    options = _parse(arguments)
    where = show_machine()
    rows = [measure(name) for name in options.names]
    header = ("polynomial", "interval", "degree", "error", "of the fit")
    cells = [
        (r.name, r.interval, str(r.degree), f"{r.source:.1e}", f"{r.fitted:.1e}") for r in rows
    ]
    print("", *aligned([header, *cells], 2), sep="\n")
    for row in rows if options.coefficients else ():
        print("", row.name, *row.coefficients, sep="\n")
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
