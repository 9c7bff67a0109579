"""Checks of a program's names and functions that do not need its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tessella.frontends.tile.functions import CASTS, FUNCTIONS, WITHOUT_CODE
from tessella.frontends.tile.source import Span, TileText
from tessella.frontends.tile.syntax import (
    Apply,
    Assignment,
    Contraction,
    Expr,
    IndexName,
    Name,
    Scan,
    Statement,
    TensorRef,
    TileFunction,
    postorder,
)
from tessella.frontends.tile.tensor_functions import TENSOR_FUNCTIONS
from tessella.support.errors import TileError
from tessella.support.names import did_you_mean

DIMENSION, TENSOR = "dimension", "tensor"
_ARITIES: Mapping[str, tuple[int, int]] = {
    **{name: (f.arity, f.arity) for name, f in FUNCTIONS.items()},
    **{name: (1 + bool(types), 1 + bool(types)) for name, types in CASTS.items()},
    **{name: f.arity for name, f in TENSOR_FUNCTIONS.items()},
}
"""The least and the greatest number of arguments of each function, by name."""
_MOST_SHOWN = 12
"""The maximum number of names that an error lists."""


def check(function: TileFunction, source: TileText) -> None:
    """Check names, assignments and functions. Raises TileError."""
    for step in function.steps:
        check(step, source)
    checker = _Checker(source)
    for parameter in function.inputs:
        checker.define(parameter.name, TENSOR)
    for parameter in function.inputs:
        for dim in parameter.dims or ():
            checker.dimension(dim)
    for statement in function.statements:
        checker.statement(statement)
    checker.outputs(function.outputs)


@dataclass
class _Checker:
    source: TileText
    known: dict[str, str] = field(default_factory=dict[str, str])
    """The kind of each name that is defined so far: a tensor, or a number."""

    def define(self, name: Name, kind: str) -> None:
        if name.name in self.known:
            raise self._again(name)
        self.known[name.name] = kind

    def _again(self, name: Name) -> TileError:
        return self.source.error(
            f"{name.name!r} is defined already",
            name.span,
            expected="a name of its own: names are assigned once",
            found=f"a {self.known[name.name]}",
        )

    def dimension(self, dim: Name) -> None:
        """Define a dimension of an input, which other inputs may share."""
        if self.known.setdefault(dim.name, DIMENSION) != DIMENSION:
            raise self._again(dim)

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Scan):
            self._scan(statement)
            for target in statement.targets:
                self.define(target.name, TENSOR)
            return
        if isinstance(statement, Assignment):
            names = self._expression(statement.value)
            kind = TENSOR if TENSOR in names else DIMENSION
        else:
            self._contraction(statement)
            kind = TENSOR
        self.define(statement.name, kind)

    def outputs(self, outputs: Iterable[Name]) -> None:
        seen: set[str] = set()
        for output in outputs:
            if output.name not in self.known:
                raise self._unknown(output, "output", self.known)
            if output.name in seen:
                raise self.source.error(f"the output {output.name!r} is listed twice", output.span)
            seen.add(output.name)

    def _scan(self, statement: Scan) -> None:
        for name in statement.operands:
            self._tensor(name)
        step, carried = statement.step, len(statement.carried)
        counts = (
            ("inputs", len(step.inputs), len(statement.operands), "the scan passes"),
            ("outputs", len(step.outputs), len(statement.targets), "the scan assigns"),
        )
        for what, expected, found, verb in counts:
            if expected != found:
                raise self.source.error(
                    f"the function {step.name!r} has another number of {what} than {verb}",
                    statement.at,
                    expected=str(expected),
                    found=str(found),
                )
        if len(step.outputs) < carried:
            raise self.source.error(
                f"the function {step.name!r} gives less than the scan carries",
                statement.at,
                expected=f"at least {carried} outputs",
                found=str(len(step.outputs)),
            )
        for target in statement.targets[:carried]:
            if target.backward:
                raise self.source.error(
                    f"{target.name.name!r} is carried, and has no order",
                    target.name.span,
                    hint="what follows what is carried may be given backward",
                )

    def _contraction(self, statement: Contraction) -> None:
        for tensor in statement.inputs:
            self._tensor(tensor.name)
            self._forms(tensor)
        self._forms(statement.target)
        for size in statement.sizes or ():
            self._number(size)
        for constraint in statement.constraints:
            self._form(constraint.form)
            self._number(constraint.bound)
        if statement.default is not None:
            self._tensor(statement.default)

    def _tensor(self, name: Name) -> None:
        if self.known.get(name.name) != TENSOR:
            raise self._unknown(name, TENSOR, self._names(TENSOR))

    def _forms(self, tensor: TensorRef) -> None:
        for form in tensor.forms:
            self._form(form)

    def _form(self, form: Expr) -> None:
        """Check that all names in an index form are dimensions or numbers. Raises TileError."""
        for node in postorder(form):
            if isinstance(node, Name):
                self._dimension(node)

    def _number(self, expr: Expr) -> None:
        """Check an expression that must be a number: a size, or the bound of a constraint. Raises
        TileError."""
        for node in postorder(expr):
            if isinstance(node, Name):
                self._dimension(node)
            self._node(node)
            if isinstance(node, Apply) and node.function in TENSOR_FUNCTIONS:
                raise self.source.error(
                    f"{node.function!r} gives a tensor", node.at, expected="a number"
                )

    def _dimension(self, name: Name) -> None:
        if self.known.get(name.name) != DIMENSION:
            raise self._unknown(name, DIMENSION, self._names(DIMENSION))

    def _expression(self, expr: Expr) -> set[str]:
        """Check an expression, and return the kinds of the names and functions in it. Raises
        TileError."""
        kinds: set[str] = set()
        for node in postorder(expr):
            if isinstance(node, Name):
                if node.name not in self.known:
                    raise self._unknown(node, "tensor or dimension", self.known)
                kinds.add(self.known[node.name])
            elif isinstance(node, Apply) and node.function in {*CASTS, *TENSOR_FUNCTIONS}:
                kinds.add(TENSOR)
            self._node(node)
        return kinds

    def _node(self, node: Expr) -> None:
        if isinstance(node, IndexName):
            raise self.source.error(
                f"the index {node.name!r} has no value here",
                node.span,
                hint="indices stand in the brackets of a contraction and left of '<' in its "
                "constraints",
            )
        if isinstance(node, Apply):
            self._function(node)

    def _function(self, node: Apply) -> None:
        name, found = node.function, len(node.arguments)
        if name not in _ARITIES:
            raise self._unknown_function(name, node.at)
        least, most = _ARITIES[name]
        if not least <= found <= most:
            count = str(least) if least == most else f"{least} to {most}"
            plural = "" if most == 1 else "s"
            raise self.source.error(
                f"wrong number of arguments of {name!r}",
                node.at,
                expected=f"{count} argument{plural}",
                found=str(found),
            )

    def _unknown_function(self, name: str, at: Span) -> TileError:
        known = sorted(_ARITIES)
        what = "there is no code for" if name in WITHOUT_CODE else "unknown function"
        return self.source.error(
            f"{what} {name!r}",
            at,
            expected=f"one of {', '.join(known)}",
            hint=did_you_mean(name, known),
        )

    def _unknown(self, name: Name, kind: str, known: Iterable[str]) -> TileError:
        names = list(known)
        other = self.known.get(name.name)
        return self.source.error(
            f"unknown {kind} {name.name!r}",
            name.span,
            expected=_listed(names),
            found=f"a {other} of this name" if other is not None else None,
            hint=did_you_mean(name.name, names),
        )

    def _names(self, kind: str) -> list[str]:
        return [name for name, found in self.known.items() if found == kind]


def _listed(names: list[str]) -> str:
    rest = ["..."] if len(names) > _MOST_SHOWN else []
    return f"one of {', '.join([*names[:_MOST_SHOWN], *rest])}" if names else "none is known here"
