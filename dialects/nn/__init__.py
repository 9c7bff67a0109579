"""The `nn` dialect: computations on tensors."""

# ruff: noqa: F403 (the ops are re-exported by family: an op is added in its module alone)

from __future__ import annotations

from types import ModuleType

from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation

from tessella.dialects.elements import NamedElementType, StringType
from tessella.dialects.nn import (
    attention,
    constants,
    detection,
    drawing,
    elementwise,
    finding,
    fused,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    symbolic,
    texts,
    trees,
)
from tessella.dialects.nn.attention import *
from tessella.dialects.nn.constants import *
from tessella.dialects.nn.core import NnOp as NnOp
from tessella.dialects.nn.detection import *
from tessella.dialects.nn.drawing import *
from tessella.dialects.nn.elementwise import *
from tessella.dialects.nn.finding import *
from tessella.dialects.nn.fused import *
from tessella.dialects.nn.grouped import *
from tessella.dialects.nn.indexing import *
from tessella.dialects.nn.linear import *
from tessella.dialects.nn.movement import *
from tessella.dialects.nn.normalization import *
from tessella.dialects.nn.pooling import *
from tessella.dialects.nn.recurrent import *
from tessella.dialects.nn.reduction import *
from tessella.dialects.nn.symbolic import *
from tessella.dialects.nn.texts import *
from tessella.dialects.nn.trees import *
from tessella.dialects.sizes import SizeAttr, SymbolAttr

FAMILIES = (
    attention,
    constants,
    detection,
    drawing,
    elementwise,
    finding,
    fused,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    symbolic,
    texts,
    trees,
)
"""The modules of the dialect that define op classes, one for each family of ops. The table of
elementwise ops defines further classes."""


def ops_of(module: ModuleType) -> list[type[IRDLOperation]]:
    """Return the op classes that a module defines, sorted by op name."""
    defined = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, IRDLOperation)
        and value.__module__ == module.__name__
        and isinstance(getattr(value, "name", None), str)
    )
    return sorted(defined, key=lambda op: op.name)


Nn = Dialect(
    "nn",
    sorted(
        {*elementwise.OPS.values(), *(o for m in FAMILIES for o in ops_of(m))}, key=lambda o: o.name
    ),
    [NamedElementType, SizeAttr, StringType, SymbolAttr],
)
