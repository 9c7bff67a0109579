"""Numbers in traced functions that depend on symbolic sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

import numpy as np

from tessella.frontends.trace.dispatch import Dispatched, call_ufunc
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_zero, differs
from tessella.support.sizes import Size, bounds_of, product, symbols_of

E = TypeVar("E", bound=Exception)
_MOST_POWER = 8
"""The greatest exponent for which the power of a size becomes a product."""


class SizeTrace(Protocol):
    """The part of a trace's interface that traced numbers use."""

    @property
    def is_open(self) -> bool:
        """True if the function is still being traced."""
        ...

    def check(self, value: Any) -> None:
        """Raise TessellaError if ``value`` belongs to another trace, or the trace is finished."""
        ...

    def decided(self, compute: Callable[[], Any]) -> Any:
        """Return the result of ``compute``, an operation on sizes, in the form that the traced
        function sees. Raises UndecidedSizeError if it would need the values of symbols."""
        ...

    def failed(self, error: E) -> E:
        """Record and return an error. In a trace with symbolic sizes, it ends the trace even if the
        function catches it."""
        ...


def _is_size(value: object) -> bool:
    return isinstance(value, TracedSize) or type(value) in (int, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, TracedNumber) or type(value) in (int, bool, float)


def _is_operand(value: object) -> bool:
    return _is_number(value) or hasattr(value, "__array_ufunc__")


def _applied(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Return the result of a ufunc on two operands. If both are numbers, it is a `TracedFloat`,
    which is not a size."""
    result = call_ufunc(ufunc, "__call__", (a, b), {})
    if not (_is_number(a) and _is_number(b)):
        return result
    first = a if isinstance(a, TracedNumber) else b
    symbols = frozenset[str]().union(*(x.symbols for x in (a, b) if isinstance(x, TracedNumber)))
    return TracedFloat(first.trace, result, symbols)


def _operator(compute: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of a binary operator and of its reflected form, such as ``__add__`` and
    ``__radd__``."""

    def forward(self: TracedNumber, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return self.trace.decided(lambda: compute(self, other))

    def mirrored(self: TracedNumber, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return self.trace.decided(lambda: compute(other, self))

    return forward, mirrored


def _arithmetic(ufunc: np.ufunc, sizes: Callable[[Size, Size], Size]):
    """Return the methods of an arithmetic operator. Its result is a size if both operands are
    sizes, otherwise a number or an array."""

    def compute(a: Any, b: Any) -> Any:
        is_size = _is_size(a) and _is_size(b)
        return sizes(as_size(a), as_size(b)) if is_size else _applied(ufunc, a, b)

    return _operator(compute)


def _decision(ufunc: np.ufunc, sizes: Callable[[Size, Size], Any]):
    """Return the methods of a comparison, `//` or `%`. For two sizes, ``sizes`` computes the result
    or raises UndecidedSizeError, as other numbers do; with an array, the result is an array."""

    def compute(a: Any, b: Any) -> Any:
        if _is_size(a) and _is_size(b):
            return sizes(as_size(a), as_size(b))
        if _is_number(a) and _is_number(b):
            _undecided(f"{ufunc.__name__} needs the number", a, b)
        return call_ufunc(ufunc, "__call__", (a, b), {})

    return _operator(compute)


def _quotient(a: Any, b: Any) -> Any:
    if _is_number(a) and isinstance(b, TracedNumber):
        low, high = bounds_of(b.size) if isinstance(b, TracedSize) else (0, 0)
        if low <= 0 <= high:
            _undecided("what a number is divided by might be 0", b)
    return _applied(np.true_divide, a, b)


def _power(a: Any, b: Any) -> Any:
    if not (_is_number(a) and _is_number(b)):
        return call_ufunc(np.power, "__call__", (a, b), {})
    if type(b) is int and 0 <= b <= _MOST_POWER:
        return product([a.size] * b) if isinstance(a, TracedSize) else _applied(np.power, a, b)
    if type(b) is not float or not isinstance(a, TracedSize) or bounds_of(a.size)[0] <= 0:
        _undecided("a power needs the number", a, b)
    return _applied(np.power, a, b)


def _undecided(what: str, *values: Any) -> NoReturn:
    numbers = [value for value in values if isinstance(value, TracedNumber)]
    names = (name for number in numbers for name in number.symbols)
    raise UndecidedSizeError(f"{what}: {' and '.join(number.text for number in numbers)}", names)


def _number_needed(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises UndecidedSizeError, as it would need the number itself."""

    def method(self: TracedNumber, *_: Any, **__: Any) -> NoReturn:
        self.undecided(f"{what} needs the number")

    return method


class TracedNumber(Dispatched):
    """A Python number inside a traced function, which depends on symbolic sizes.

    An operation that needs the number itself, or whose outcome other sizes would change, raises
    UndecidedSizeError. The function is then compiled for concrete sizes.
    """

    __slots__ = ("symbols", "trace")
    STANDS_FOR: ClassVar[type[Any]]
    """The Python type that the number imitates."""

    def __init__(self, trace: SizeTrace, symbols: Iterable[str]) -> None:
        self.trace = trace
        self.symbols = frozenset(symbols)
        """The names of the symbols that determine the number."""

    @property
    def text(self) -> str:
        """A description of the number for messages."""
        raise NotImplementedError

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class that ``isinstance`` sees: the imitated Python type, for code that tests for
        numbers."""
        return self.STANDS_FOR

    def undecided(self, what: str) -> NoReturn:
        """Raise UndecidedSizeError for an operation ``what``, which needs the number itself."""
        raise self.trace.failed(UndecidedSizeError(f"{what}: {self.text}", self.symbols))

    __add__, __radd__ = _arithmetic(np.add, lambda a, b: a + b)
    __sub__, __rsub__ = _arithmetic(np.subtract, lambda a, b: a - b)
    __mul__, __rmul__ = _arithmetic(np.multiply, lambda a, b: a * b)
    __truediv__, __rtruediv__ = _operator(_quotient)
    __floordiv__, __rfloordiv__ = _decision(np.floor_divide, lambda a, b: a // b)
    __mod__, __rmod__ = _decision(np.remainder, lambda a, b: a % b)
    __pow__, __rpow__ = _operator(_power)
    __lt__, _ = _decision(np.less, lambda a, b: decided(a < b))
    __le__, _ = _decision(np.less_equal, lambda a, b: decided(a <= b))
    __gt__, _ = _decision(np.greater, lambda a, b: decided(a > b))
    __ge__, _ = _decision(np.greater_equal, lambda a, b: decided(a >= b))
    __eq__, _ = _decision(np.equal, lambda a, b: not differs(a, b))
    __ne__, _ = _decision(np.not_equal, differs)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    __hash__ = _number_needed("a hash")
    __bool__ = _number_needed("bool()")
    __index__ = __array__ = _number_needed("Python")
    __int__ = _number_needed("int()")
    __float__ = _number_needed("float()")
    __complex__ = _number_needed("complex()")
    __abs__ = _number_needed("abs()")
    __round__ = __trunc__ = __floor__ = __ceil__ = _number_needed("rounding")
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _number_needed("an operator")
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __invert__ = __and__

    def __repr__(self) -> str:
        return self._shown(self.text)

    def __format__(self, spec: str) -> str:
        return self._shown(self.text)

    def _shown(self, text: str) -> str:
        """Return ``text`` after the trace, for error messages. While the function is traced, raise
        UndecidedSizeError."""
        if self.trace.is_open:
            self.undecided("text needs the number")
        return text

    def __getattr__(self, name: str) -> Any:
        if hasattr(float, name) or hasattr(int, name):
            self.undecided(f"{name} needs the number")
        raise AttributeError(name)


class TracedSize(TracedNumber):
    """The size of a dynamic dimension, or an expression of several sizes, in a traced function."""

    __slots__ = ("_size",)
    STANDS_FOR = int

    def __init__(self, trace: SizeTrace, size: Size) -> None:
        super().__init__(trace, (symbol.name for symbol in symbols_of([size])))
        self._size = size

    @property
    def size(self) -> Size:
        """The symbolic size. Raises TessellaError after the trace."""
        self.trace.check(self)
        return self._size

    @property
    def text(self) -> str:
        return str(self._size)

    def __abs__(self) -> Any:
        return self.trace.decided(lambda: abs(self.size))

    def __bool__(self) -> bool:
        return self.trace.decided(lambda: not decided_zero(self.size))

    __trunc__ = __floor__ = __ceil__ = TracedNumber.__pos__


class TracedFloat(TracedNumber):
    """A float in a traced function that sizes determine, such as ``2.0 / n``."""

    __slots__ = ("_value",)
    STANDS_FOR = float

    def __init__(self, trace: SizeTrace, value: Any, symbols: Iterable[str]) -> None:
        super().__init__(trace, symbols)
        self._value = value

    @property
    def value(self) -> Any:
        """The number as a traced array without dimensions. Raises TessellaError after the trace."""
        self.trace.check(self)
        return self._value

    @property
    def text(self) -> str:
        return f"one that follows from {', '.join(sorted(self.symbols))}"


def as_size(value: Any) -> Size:
    """Return a traced size or an integer as a size. Raises TypeError for anything else."""
    return value.size if isinstance(value, TracedSize) else operator.index(value)
