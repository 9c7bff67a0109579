"""Where a program is cut: a node whose results have shapes that depend on values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.utils.exceptions import VerifyException

from tessella.frontends.onnx.model import Array, Node
from tessella.support.errors import (
    InternalError,
    InvalidModelError,
    TessellaError,
    UnknownValueError,
    UnsupportedError,
)

# What a converter raises where its own code is at fault.
_BUGS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    VerifyException,
)

Operands = Sequence[Array | None]
Find = Callable[[Operands], Sequence[Array]]
"""The results of a node from its operands, in NumPy; None is an operand that is left out."""


class CutError(Exception):
    """A node whose results' shapes depend on values: the program is cut here.

    ``find`` computes its results; None where the node is control flow, which runs as subprograms.
    """

    def __init__(self, node: Node, find: Find | None = None) -> None:
        super().__init__(f"the program is cut at {node.where}")
        self.node = node
        self.find = find


def given(arrays: Operands, index: int) -> Array:
    """The operand of this index. Raises InvalidModelError where it is left out."""
    array = arrays[index] if index < len(arrays) else None
    if array is None:
        raise InvalidModelError(f"input {index} is left out, but not optional")
    return array


@contextmanager
def located(node: Node) -> Generator[None]:
    """Add the node to every error that leaves the block."""
    try:
        yield
    except (UnknownValueError, UnsupportedError):
        raise
    except TessellaError as error:
        if error.where is not None:
            raise
        error.at(node.where)
        raise
    except _BUGS as error:
        raise InternalError(
            f"the conversion of an ONNX node failed: {error}",
            where=node.where,
            hint="please report this model",
        ) from error
