"""Graph breaks: nodes whose result shapes depend on values."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.utils.exceptions import VerifyException

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.model import Node, NodeGraph
from tessella.runtime.rest import Bounds
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import (
    InternalError,
    ShapeError,
    TessellaError,
    UnknownValueError,
    UnsupportedError,
)
from tessella.support.foreign import is_of_handler
from tessella.support.sizes import Size

# exceptions that indicate a bug in a converter
_BUGS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    VerifyException,
)


@dataclass(frozen=True)
class Inside:
    """A graph that a step runs, with the types and bounds that are known of its own inputs before a
    run."""

    graph: NodeGraph
    types: Sequence[ValueInfo] = ()
    bounds: Mapping[str, Bounds] = field(default_factory=dict[str, Bounds])
    """Bounds of those sizes in ``types`` that are not symbols of the program."""


@dataclass(frozen=True)
class Find:
    """The computation of a node's results by a step: a function of `runtime.rest`, with its
    settings and the types of the results."""

    function: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    types: Sequence[tuple[np.dtype[Any], Sequence[Size | str]]] = ()
    """The element types and shapes of the first results. A string in a shape is a size that is
    known only at run time; equal strings are equal sizes."""
    inside: Sequence[Inside] = ()
    """The graphs that the function runs."""
    outputs: Sequence[str] = ()
    """The names of the results, if these differ from the node's outputs."""


class CutError(Exception):
    """A graph break at a node whose result shapes depend on values.

    ``find`` tells how a step computes the node's results. It is None for control flow, which runs
    as subprograms.
    """

    def __init__(self, node: Node, find: Find | None = None) -> None:
        super().__init__(f"the program is cut at {node.where}")
        self.node = node
        self.find = find


@contextmanager
def defined_by_onnx(node: Node, inputs: Sequence[Known | None]) -> Generator[None]:
    """Add a hint to the errors that leave the block, which converts the function by which ONNX
    defines a node: the types of the node's operands."""
    try:
        yield
    except UnknownValueError:
        raise
    except ShapeError as error:
        types = ", ".join(str(x.type) if isinstance(x, Value) else "none" for x in inputs)
        error.hint = error.hint or f"ONNX's definition of {node.title} takes no operands {types}"
        raise error.at(error.where or node.where) from None


@contextmanager
def located(node: Node) -> Generator[None]:
    """Add the node as the location of every error that leaves the block; errors of a converter's
    own code become InternalError."""
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
        if is_of_handler(error):
            raise
        raise InternalError(
            f"the conversion of an ONNX node failed: {error}",
            where=node.where,
            hint="please report this model",
        ) from error
