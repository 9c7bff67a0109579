"""Traced arrays, and the trace that records their ops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block

from tessella.dialects.nn.core import (
    element_type,
)
from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.trace.dispatch import Dispatched, Function, call_function, call_ufunc
from tessella.frontends.trace.effects import (
    check_unchanged,
    in_place,
    unassigned,
    unknown_attribute,
)
from tessella.frontends.trace.location import caller
from tessella.frontends.trace.numbers import Numbers
from tessella.frontends.trace.size import TracedFloat, TracedSize
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import TessellaError
from tessella.support.sizes import Expr, Size, product, symbols_of

Array = npt.NDArray[Any]
DType = np.dtype[Any]
E = TypeVar("E", bound=Exception)

_STATIC = "name the argument that it comes from in static_argnames, or derive it from shapes"


def _binary(ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods of a binary operator and of its reflected form, such as ``__add__`` and
    ``__radd__``."""

    def forward(self: Traced, other: Any) -> Any:
        return call_ufunc(ufunc, "__call__", (self, other), {})

    def mirrored(self: Traced, other: Any) -> Any:
        return call_ufunc(ufunc, "__call__", (other, self), {})

    return forward, mirrored


def _unary(ufunc: np.ufunc) -> Callable[[Traced], Any]:
    def method(self: Traced) -> Any:
        return call_ufunc(ufunc, "__call__", (self,), {})

    return method


def _method(function: Function | str) -> Callable[..., Any]:
    """Return a method that calls a NumPy function with the array as its first argument."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        return call_function(function, (self, *args), kwargs)

    return method


def _unknowable(what: str, hint: str) -> Callable[..., NoReturn]:
    """Return a method that raises TessellaError, as it would need the elements of the array."""

    def method(self: Traced, *_: Any, **__: Any) -> NoReturn:
        error = TessellaError(
            f"{what} needs the elements of an array, which are not known while tracing",
            found=repr(self),
            hint=hint,
        )
        raise self.trace.failed(error)

    return method


class Traced(Dispatched):
    """An array inside a traced function: its shape and dtype are known, but its elements are not.

    Operators and NumPy's functions on it are recorded as ops. An array that the function has made
    can be stored into.
    """

    __slots__ = ("base", "is_copy", "seen", "stored_at", "stores", "trace", "value", "weak")

    def __init__(self, trace: Trace, value: Value, weak: bool = False) -> None:
        self.trace = trace
        self.value = value
        self.weak = weak
        """True if the array stands for a Python number, whose dtype yields to the dtypes of
        arrays."""
        self.base: Traced | None = None
        """The array of which this array is a view; None if it is not a view."""
        self.seen = 0
        """The value of ``base.stores`` when this view was made."""
        self.stores = 0
        """The number of in-place changes of this array. ``stored_at`` is the line of the latest
        change."""
        self.stored_at: str | None = None
        self.is_copy = False
        """True if the array is a copy, which may be stored into although it has the value of an
        argument."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.trace.size(size) for size in self.sizes)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The shape, with symbolic sizes as expressions."""
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    @property
    def size(self) -> int:
        return self.trace.size(product(self.sizes))

    @property
    def T(self) -> Any:  # noqa: N802 (NumPy's name)
        return call_function(np.transpose, (self,), {})

    @property
    def mT(self) -> Any:  # noqa: N802 (NumPy's name)
        return call_function(np.swapaxes, (self, -1, -2), {})

    @property
    def real(self) -> Any:
        return call_function(np.real, (self,), {})

    @property
    def imag(self) -> Any:
        return call_function(np.imag, (self,), {})

    shape = shape.setter(unassigned("shape"))
    dtype = dtype.setter(unassigned("dtype"))
    real = real.setter(unassigned("real"))
    imag = imag.setter(unassigned("imag"))
    flat = property(None, unassigned("flat"))
    strides = property(None, unassigned("strides"))

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_attribute(self, name)

    def viewed(self, result: Any) -> Any:
        if not isinstance(result, Traced):
            return result
        view = Traced(self.trace, result.value, result.weak)
        view.base, view.seen = self, self.stores
        return view

    def store(self, value: Value) -> None:
        """Replace the elements of the array by ``value``, a value of the same type, as an in-place
        change."""
        self.value = value
        self.stores += 1
        self.stored_at = str(caller() or "an earlier line")

    def conj(self) -> Any:
        """Return the complex conjugates; for real numbers, the array itself, as in NumPy."""
        is_complex = self.dtype.kind == "c"
        return call_ufunc(np.conjugate, "__call__", (self,), {}) if is_complex else self

    conjugate = conj

    def __repr__(self) -> str:
        return f"Traced({self.dtype.name}[{', '.join(map(str, self.sizes))}])"

    def __len__(self) -> int:
        if not self.sizes:
            raise TypeError("len() of an array without dimensions")
        size: Any = self.shape[0]
        if isinstance(size, TracedSize):
            size.undecided("len() needs the number, which x.shape[0] need not be")
        return size

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Return the array in another shape: ``x.reshape(2, -1)`` or ``x.reshape((2, -1))``."""
        wanted = shape[0] if len(shape) == 1 else shape
        return call_function(np.reshape, (self, wanted), kwargs)

    def transpose(self, *axes: Any) -> Any:
        """Return the array with permuted dimensions: ``x.transpose(1, 0)`` or ``x.transpose((1,
        0))``."""
        order = axes[0] if len(axes) == 1 else axes or None
        return call_function(np.transpose, (self, order), {})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TessellaError(
            "a traced array cannot become a NumPy array: its elements are not known while tracing",
            found=repr(self),
            hint="for np.array([x, y]) write tessella.stack([x, y]), for table[x] "
            "tessella.take(table, x, axis=0), for np.zeros(n) whose elements are assigned "
            "tessella.zeros(n)",
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    __add__, __radd__ = _binary(np.add)
    __sub__, __rsub__ = _binary(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.true_divide)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide)
    __mod__, __rmod__ = _binary(np.remainder)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    __pow__, __rpow__ = _binary(np.power)
    __matmul__, __rmatmul__ = _binary(np.matmul)
    __and__, __rand__ = _binary(np.bitwise_and)
    __or__, __ror__ = _binary(np.bitwise_or)
    __xor__, __rxor__ = _binary(np.bitwise_xor)
    __lshift__, __rlshift__ = _binary(np.left_shift)
    __rshift__, __rrshift__ = _binary(np.right_shift)
    __eq__, _ = _binary(np.equal)
    __ne__, _ = _binary(np.not_equal)
    __lt__, _ = _binary(np.less)
    __le__, _ = _binary(np.less_equal)
    __gt__, _ = _binary(np.greater)
    __ge__, _ = _binary(np.greater_equal)

    __iadd__ = in_place(np.add)
    __isub__ = in_place(np.subtract)
    __imul__ = in_place(np.multiply)
    __itruediv__ = in_place(np.true_divide)
    __ifloordiv__ = in_place(np.floor_divide)
    __imod__ = in_place(np.remainder)
    __ipow__ = in_place(np.power)
    __iand__ = in_place(np.bitwise_and)
    __ior__ = in_place(np.bitwise_or)
    __ixor__ = in_place(np.bitwise_xor)
    __ilshift__ = in_place(np.left_shift)
    __irshift__ = in_place(np.right_shift)

    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    __getitem__ = _method("indexing")
    __setitem__ = _method("store")
    astype = _method("astype")
    copy = _method(np.copy)
    sum = _method(np.sum)
    prod = _method(np.prod)
    mean = _method(np.mean)
    max = _method(np.max)
    min = _method(np.min)
    any = _method(np.any)
    all = _method(np.all)
    var = _method(np.var)
    std = _method(np.std)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    cumsum = _method(np.cumsum)
    cumprod = _method(np.cumprod)
    clip = _method(np.clip)
    dot = _method(np.dot)
    take = _method(np.take)
    argsort = _method(np.argsort)
    searchsorted = _method(np.searchsorted)
    squeeze = _method(np.squeeze)
    swapaxes = _method(np.swapaxes)
    ravel = _method(np.ravel)
    flatten = _method(np.ravel)

    __bool__ = _unknowable(
        "bool(), and with it if, while, and, or, not",
        f"choose elements with tessella.where(condition, a, b); if the condition is the same for "
        f"all elements and known beforehand, {_STATIC}",
    )
    __int__ = _unknowable("int()", f"convert with x.astype(int); if a number is meant, {_STATIC}")
    __float__ = _unknowable(
        "float()",
        f"use tessella.exp and such in place of math.exp, x.astype(float) in place of float(x), "
        f"tessella.zeros(n) in place of np.zeros(n) where elements are assigned; "
        f"if a number is meant, {_STATIC}",
    )
    __complex__ = _unknowable("complex()", "convert with x.astype(complex)")
    __index__ = _unknowable("a shape, an axis or the bound of a slice", _STATIC)
    __iter__ = _unknowable("a for loop over an array, or unpacking it,", "index it: x[0], x[1]")
    sort = _unknowable("sort(), which changes an array,", "sort the result, in NumPy")
    partition = _unknowable("partition(), which changes an array,", "apply it to the result")
    fill = _unknowable("fill()", "make a new array with tessella.full_like(x, value)")
    put = _unknowable("put()", "make a new array with tessella.where(condition, a, b)")
    resize = _unknowable("resize()", "make a new array with x.reshape(shape)")
    item = _unknowable("item()", "return the array and call item() on the result")
    tolist = _unknowable("tolist()", "return the array and call tolist() on the result")


class Trace:
    """The record of a traced function: its ops in execution order, and the arrays that it
    captured."""

    def __init__(
        self,
        block: Block,
        names: Mapping[int, str] | None = None,
        shapes: Sequence[tuple[Size, ...]] = (),
    ) -> None:
        """Start a trace for arguments of these shapes."""
        self.emitter = Emitter(block, _line)
        self.failure: Exception | None = None
        """The first error of a trace with symbolic sizes. The function may catch it, but with
        concrete sizes it might not be raised."""
        self.is_open = True
        self.numbers = Numbers(shapes)
        self._is_sized = not symbols_of(size for shape in shapes for size in shape)
        self._names = names or {}
        self._captured: dict[int, tuple[Array, Array, Value]] = {}

    @contextmanager
    def opened(self) -> Generator[None]:
        """Make this trace the current one within the block. After the block, nothing more can be
        recorded."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self.is_open = False

    def lift(self, value: Any) -> Value:
        """Return a traced array, an array or a number as a value of the program."""
        if isinstance(value, Value):
            return value
        if isinstance(value, TracedSize):
            return self.emitter.scalar(value.size, np.int64)
        if isinstance(value, TracedFloat):
            return self.lift(value.value)
        if not isinstance(value, Traced):
            return self._capture(np.asarray(value))
        self.check(value)
        check_unchanged(value)
        return value.value

    def check(self, value: Any) -> None:
        """Raise TessellaError if ``value`` belongs to another trace, or the trace is finished."""
        if value.trace is not self or not self.is_open:
            kind = "array" if isinstance(value, Traced) else "size"
            raise TessellaError(
                f"a traced {kind} was used outside of the call that it belongs to",
                found=repr(value),
                hint="return it from the traced function; do not keep it in a variable outside",
            )

    def size(self, size: Size) -> int:
        """Return a size in the form that the traced function sees: a symbolic size as a
        ``TracedSize``."""
        return cast(int, TracedSize(self, size)) if isinstance(size, Expr) else size

    def decided(self, compute: Callable[[], Any]) -> Any:
        """Return the result of ``compute``, an operation on sizes, in the form that the traced
        function sees. Raises UndecidedSizeError if it would need the values of symbols."""
        try:
            return self.size(compute())
        except Exception as error:
            raise self.failed(error)  # noqa: B904 (it is the same error)

    def failed(self, error: E) -> E:
        """Record and return an error. In a trace with symbolic sizes, it ends the trace even if the
        function catches it."""
        if isinstance(error, UndecidedSizeError) and not error.where and (at := caller()):
            error.what = f"{error.what}, in {at.node}"
            error.at(str(at))
        if not self._is_sized:
            self.failure = self.failure or error
        return error

    def _capture(self, array: Array) -> Value:
        """Return a constant with the elements of an array. Later writes to the array do not change
        the constant."""
        known = self._captured.get(id(array))
        if known is not None and known[0] is array and _same(array, known[1]):
            return known[2]
        element_type(array.dtype)
        if is_uniform(array):
            first = array.flat[0].item() if array.size else 0
            return self.emitter.splat(first, array.shape, array.dtype)
        kept = np.array(array, array.dtype.newbyteorder("="), order="C")
        name = self._names.get(id(array), "constant")
        value = self.emitter.constant(kept, name)
        self._captured[id(array)] = array, kept, value
        return value


_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


def current_trace() -> Trace | None:
    """Return the trace of the function that is being traced; None if there is none."""
    return _CURRENT.get()


def _line() -> str | None:
    """Return the line of user code that is running, in the form of op locations; None if there is
    none."""
    at = caller()
    return at.node if at else None


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def is_uniform(array: Array) -> bool:
    """Return whether all elements of an array have the same bits."""
    if array.size < 2:
        return True
    first = array[(0,) * array.ndim]
    if array[(-1,) * array.ndim].tobytes() != first.tobytes():
        return False
    # no integer has 16 bytes, as complex numbers may have
    bits = np.dtype(f"u{min(array.dtype.itemsize, 8)}")
    words = np.ascontiguousarray(array).reshape(-1, 1).view(bits)
    return bool((words == words[0]).all())
