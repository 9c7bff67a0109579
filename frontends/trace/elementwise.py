"""Elementwise functions for users: some of NumPy's, and those that NumPy lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp, element_type
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import as_operand, cast, common, floating
from tessella.frontends.trace.traced import Array, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL, apply


class Unary(Protocol):
    """An elementwise function of one array."""

    def __call__(self, x: npt.ArrayLike) -> Array: ...


class Binary(Protocol):
    """An elementwise function of two arrays, which are broadcast."""

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array: ...


def _unary(name: str, made: np.ufunc | type[NnOp], doc: str) -> Unary:
    def body(trace: Trace, x: npt.ArrayLike) -> Traced:
        if isinstance(made, np.ufunc):
            return apply(trace, made, x)
        return trace.emit(made, floating(trace, x))

    return function(_called(body, name, doc))


def _binary(name: str, ufunc: np.ufunc, doc: str) -> Binary:
    def body(trace: Trace, x: npt.ArrayLike, y: npt.ArrayLike) -> Traced:
        return apply(trace, ufunc, x, y)

    return function(_called(body, name, doc))


def _called[F: Callable[..., Any]](body: F, name: str, doc: str) -> F:
    body.__name__ = body.__qualname__ = name
    body.__doc__ = doc
    return body
