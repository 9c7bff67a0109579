"""Ops that name other ops of the module: `tile.call @conv_0`, `rt.launch @segment_0`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

T = TypeVar("T", bound=Operation)


def find_symbol(user: Operation, symbol: SymbolRefAttr) -> Operation | None:
    """Return the op that ``symbol`` names in the module of ``user``; None if there is none.

    This is faster than xDSL's lookup, which queries the traits of every op of the module.
    """
    module = user
    while not isinstance(module, ModuleOp):
        parent = module.parent_op()
        if parent is None:
            return None
        module = parent
    name = symbol.root_reference.data
    for op in module.body.block.ops:
        known = op.properties.get("sym_name")
        if isinstance(known, StringAttr) and known.data == name:
            return op
    return None


def callee_of(user: Operation, symbol: SymbolRefAttr, *kinds: type[T]) -> T:
    """Return the op that ``symbol`` names, as called by ``user``. Raises VerifyException if no op
    of these kinds has the name."""
    found = find_symbol(user, symbol)
    if not isinstance(found, kinds):
        expected = " or ".join(getattr(kind, "name", "function") for kind in kinds)
        raise VerifyException(f"{user.name}: no {expected} @{symbol.root_reference.data}")
    return found


def body_above(user: Operation, symbol: SymbolRefAttr, kind: type[T]) -> T:
    """Return the function that ``symbol`` names, as run by ``user``. Raises VerifyException unless
    it is of this kind and precedes the function that contains ``user``, which excludes
    recursion."""
    found = callee_of(user, symbol, kind)
    around: Operation | None = user
    while around is not None and around.parent is not found.parent:
        around = around.parent_op()
    if around is None or not found.is_before_in_block(around):
        raise VerifyException(
            f"{user.name}: expected @{symbol.root_reference.data} above the function that runs it"
        )
    return found


def check_types(
    user: Operation, what: str, expected: Sequence[Attribute], found: Sequence[Attribute]
) -> None:
    """Raise VerifyException if the types of a call's operands or results differ from those of its
    callee."""
    if list(expected) != list(found):
        raise VerifyException(
            f"{user.name}: the {what} differ from those of the callee: expected "
            f"{_listed(expected)}, found {_listed(found)}"
        )


def _listed(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types)) or "none"
