"""Verification of a whole program: every op, and that values and symbols are defined before use,
which xDSL does not check."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import chain

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import rt, tile
from tessella.dialects.graph import elements_of
from tessella.dialects.nn.core import shape_of
from tessella.dialects.nn.traits import definitions
from tessella.dialects.sizes import sizes_in, symbols_in
from tessella.dialects.structure import structure
from tessella.support.sizes import Symbol, symbols_of


def verify(module: ModuleOp) -> None:
    """Raise VerifyException if a module is not consistent."""
    module.verify()
    _check_order(module)


class Verifier:
    """A verifier that checks a program after each of several passes, and skips unchanged parts.

    It skips a program that equals a verified one. In a changed program it skips each kernel that
    equals a verified one, as kernels refer to nothing outside themselves. It verifies all other
    functions again, as their validity depends on the functions that they call.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        """The number of each function verified so far, by its structure."""
        self._kernels: set[int] = set()
        """The numbers of the verified kernels."""
        self._programs: set[tuple[int, ...]] = set()
        """The verified programs, each represented by the numbers of its functions."""

    def verify(self, module: ModuleOp) -> None:
        """Raise VerifyException if a module is not consistent."""
        module.verify(verify_nested_ops=False)
        numbers = tuple(self._number(op) for op in module.ops)
        if numbers in self._programs:
            return
        for op, number in zip(module.ops, numbers, strict=True):
            if number not in self._kernels:
                op.verify()
                if isinstance(op, rt.KernelOp | tile.KernelOp):
                    self._kernels.add(number)
        _check_order(module)
        self._programs.add(numbers)

    def _number(self, function: Operation) -> int:
        return self._numbers.setdefault(structure(function), len(self._numbers))


def verify_program(module: ModuleOp) -> None:
    """Raise VerifyException if a program is not consistent, without verifying its kernels.

    The kernels contain most ops of a program. Everything else that `verify` checks is checked,
    including the calls of kernels.
    """
    module.verify(verify_nested_ops=False)
    for op in module.ops:
        if not isinstance(op, rt.KernelOp):
            op.verify()


def _check_order(module: ModuleOp) -> None:
    for _, error in misplaced(module):
        raise error


def misplaced(module: ModuleOp) -> Iterator[tuple[Operation, VerifyException]]:
    """Yield the ops with an operand that is not defined before them, in their block or in a block
    around it, and the ops with a symbol that is not defined before them, each with the error."""
    for op in _misplaced(module, set()):
        yield op, VerifyException(f"an operand of {op.name} is not defined above it")
    yield from _misplaced_symbols(module)


def _misplaced(op: Operation, defined: set[SSAValue]) -> Iterator[Operation]:
    if not defined.issuperset(op.operands):
        yield op
    for region in op.regions:
        inner: set[SSAValue] = set()
        for block in region.blocks:
            inner.update(block.args, *(child.results for child in block.ops))
            defined.update(block.args)
            for child in block.ops:
                yield from _misplaced(child, defined)
        defined -= inner
    defined.update(op.results)


def _misplaced_symbols(module: ModuleOp) -> Iterator[tuple[Operation, VerifyException]]:
    """Yield the ops that define a symbol where they cannot, and the ops that depend on a symbol
    which a later op defines, each with the error."""
    bodies = (op for op in module.ops if not isinstance(op, rt.KernelOp | tile.KernelOp))
    definers = [op for body in bodies for op in body.walk() if definitions(op)]
    undefined: set[Symbol] = set()
    for op in definers:
        for symbol in (each.symbol for each in definitions(op)):
            if (fault := _why_undefinable(module, op, symbol, undefined)) is not None:
                yield op, VerifyException(f"{op.name}: the symbol {symbol} {fault}")
            undefined.add(symbol)
    used = SymbolsOf(module)
    block = next((op.parent for op in definers), None)
    for op in () if block is None else block.ops:
        undefined.difference_update(each.symbol for each in definitions(op))
        for symbol in sorted(used.by(op) & undefined):
            text = f"{op.name}: the symbol {symbol} is not defined above it"
            yield op, VerifyException(text)


class SymbolsOf:
    """The symbols that the ops of a module depend on, directly or through the functions that they
    call."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = {name.data: op for op in module.ops if (name := _name_of(op)) is not None}
        self._known: dict[str, frozenset[Symbol]] = {}

    def by(self, op: Operation) -> frozenset[Symbol]:
        """Return the symbols that an op depends on."""
        attributes = (x for inner in op.walk() for x in inner.properties.values())
        names = [x.root_reference.data for x in attributes if isinstance(x, SymbolRefAttr)]
        return sizes_in(op).union(*map(self._of_function, names))

    def _of_function(self, name: str) -> frozenset[Symbol]:
        if name not in self._known:
            self._known[name] = frozenset()  # of a function that calls itself
            function = self._functions.get(name)
            self._known[name] = frozenset() if function is None else self.by(function)
        return self._known[name]


def _name_of(op: Operation) -> StringAttr | None:
    name = op.properties.get("sym_name")
    return name if isinstance(name, StringAttr) else None


def _why_undefinable(
    module: ModuleOp, op: Operation, symbol: Symbol, defined: set[Symbol]
) -> str | None:
    """Return why an op cannot define a symbol; None if it can. ``defined`` are the symbols that ops
    above it define."""
    function = op.parent_op()
    if not isinstance(function, FuncOp) or function.sym_name.data != "main":
        return "is defined outside of @main"
    if symbol not in symbols_in(module):
        return f"is not declared by the module as {symbol.range}"
    shapes = map(shape_of, function.body.block.args)
    if symbol in symbols_of(chain(*shapes, *elements_of(function).values())):
        return "is a size of an input too"
    return "is defined twice" if symbol in defined else None
