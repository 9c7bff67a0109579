"""The parser of the Tile language: recursive descent, one method for each rule of the grammar.

program    = {"function" id signature} "function" signature
signature  = "(" [input {"," input}] ")" "->" "(" name {"," name} ")" "{" body "}"
input      = name ["[" [name {"," name}] "]"]
body       = statement ";" {statement ";"}
statement  = {attribute} (contract | name "=" expr | scan)
attribute  = "[[" id ["(" id {"," id} ")"] "]]"
contract   = output "=" agg "(" tensor [comb tensor ["?" tensor]] ")" {"," form "<" expr}
             {"no_defract" | "default" name}
scan       = sequence {"," sequence} "=" "scan" id "(" [name {"," name}] ";"
             sequence {"," sequence} [";" name {"," name}] ")"
sequence   = name ["backward"]
output     = name "[" [form {"," form}] [":" [expr {"," expr}]] "]"
tensor     = name "[" [form {"," form}] "]"
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tessella.frontends.tile.lexer import Token, tokens
from tessella.frontends.tile.source import Span, TileText
from tessella.frontends.tile.syntax import (
    Apply,
    Assignment,
    Contraction,
    Expr,
    IndexConstraint,
    IndexName,
    Input,
    Literal,
    Name,
    Scan,
    SequenceRef,
    Statement,
    TensorRef,
    TileFunction,
)
from tessella.support.errors import TileError

MAX_DEPTH = 100
"""The maximum nesting depth of expressions."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Operator:
    level: int
    function: str
    chains: bool = True


_ARITHMETIC = {
    "+": _Operator(7, "add"),
    "-": _Operator(7, "sub"),
    "*": _Operator(8, "mul"),
    "/": _Operator(8, "div"),
}
_OPERATORS = {
    "^": _Operator(1, "bit_xor"),
    "|": _Operator(2, "bit_or"),
    "&": _Operator(3, "bit_and"),
    "==": _Operator(4, "cmp_eq", chains=False),
    "!=": _Operator(4, "cmp_ne", chains=False),
    "<": _Operator(5, "cmp_lt", chains=False),
    "<=": _Operator(5, "cmp_le", chains=False),
    ">": _Operator(5, "cmp_gt", chains=False),
    ">=": _Operator(5, "cmp_ge", chains=False),
    "<<": _Operator(6, "bit_left"),
    ">>": _Operator(6, "bit_right"),
    **_ARITHMETIC,
}
_AGGREGATIONS = ("+", "*", ">", "<", "=")
_COMBINATIONS = ("*", "+", "==")
_SCAN = ("index", "scan")


@dataclass(frozen=True)
class _Grammar:
    """The operators, prefixes and operands of a kind of expression."""

    operators: Mapping[str, _Operator]
    prefixes: Mapping[str, str]
    operand: Callable[[], Expr]


@dataclass
class _Parser:
    source: TileText
    tokens: list[Token]
    at: int = 0
    depth: int = 0
    steps: dict[str, TileFunction] = field(default_factory=dict[str, TileFunction])
    expressions: _Grammar = field(init=False)
    forms: _Grammar = field(init=False)

    def __post_init__(self) -> None:
        prefixes = {"-": "neg", "~": "bit_not"}
        self.expressions = _Grammar(_OPERATORS, prefixes, self._expression_operand)
        self.forms = _Grammar(_ARITHMETIC, {"-": "neg"}, self._form_operand)

    # ** tokens **

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def _next(self) -> Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def _take(self, *kinds: str) -> Token | None:
        """Consume and return the next token if it is of one of these kinds, otherwise return
        None."""
        return self._next() if self.token.kind in kinds else None

    def _expect(self, kind: str, expected: str | None = None, hint: str | None = None) -> Token:
        if self.token.kind != kind:
            raise self._unexpected(expected or repr(kind), hint)
        return self._next()

    def _unexpected(self, expected: str, hint: str | None = None) -> TileError:
        return self.source.error(
            f"unexpected {self.token}", self.token.span, expected=expected, hint=hint
        )

    def _list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Parse one or more items, separated by commas."""
        items = [item()]
        while self._take(","):
            items.append(item())
        return tuple(items)

    # ** functions **

    def program(self) -> TileFunction:
        self._expect("function", "'function', which a program begins with")
        while (name := self._take("index")) is not None:
            if name.text in self.steps:
                raise self.source.error(f"the function {name.text!r} is defined already", name.span)
            self.steps[name.text] = self._function(name.text)
            self._expect("function", "'function' and the program, which comes last")
        main = replace(self._function(), steps=tuple(self.steps.values()))
        self._expect("end", "nothing after the function")
        return main

    def _function(self, name: str = "") -> TileFunction:
        self._expect("(", "'(' and the inputs")
        inputs = () if self.token.kind == ")" else self._list(self._input)
        self._expect(")", "',' or ')' after an input")
        self._expect("->", "'->' and the outputs")
        self._expect("(")
        outputs = self._list(lambda: self._name("the name of an output"))
        self._expect(")", "',' or ')' after an output")
        self._expect("{")
        statements = [self._statement()]
        while not self._take("}"):
            statements.append(self._statement())
        return TileFunction(inputs, outputs, tuple(statements), name)

    def _name(self, expected: str) -> Name:
        hint = None
        if self.token.kind == "index":
            hint = "names of tensors and dimensions begin with a capital letter"
        token = self._expect("name", expected, hint)
        return Name(token.text, token.span)

    def _input(self) -> Input:
        name = self._name("the name of an input")
        if not self._take("["):
            return Input(name, None)
        if self._take("]"):
            return Input(name, ())
        dims = self._list(lambda: self._name("the name of a dimension"))
        self._expect("]", "',' or ']' after a dimension")
        return Input(name, dims)

    # ** statements **

    def _statement(self) -> Statement:
        given = None
        while self._take("[["):
            given = self._attribute() or given
        name = self._name("a statement, which begins with the name of a tensor, or '}'")
        label = given or name.name
        if self.token.kind == "[":
            statement: Statement = self._contraction(name, label)
        elif self._is_scan():
            statement = self._scan(name, label)
        else:
            self._expect("=", "'[' of a contraction or '=' of an assignment")
            statement = Assignment(name, self._expression(), label)
        self._expect(";", "';' after a statement")
        return statement

    def _attribute(self) -> str | None:
        """Parse an attribute of a statement. Returns the label that `pid` gives the statement; None
        for other attributes."""
        name = self._identifier()
        arguments: tuple[str, ...] = ()
        if self._take("("):
            arguments = self._list(self._identifier)
            self._expect(")")
        self._expect("]]")
        return arguments[0] if name == "pid" and arguments else None

    def _identifier(self) -> str:
        token = self._take("index", "name")
        if token is None:
            raise self._unexpected("a name")
        return token.text

    def _is_scan(self) -> bool:
        """Return whether the statement is a scan: it assigns several names, or one name by `scan`
        and the name of a function."""
        following = self.tokens[self.at : self.at + 3]
        scans = [(token.kind, token.text) for token in following[:2]] == [("=", "="), _SCAN]
        several = self.token.kind == "," or self.token.text == "backward"
        return several or (scans and following[-1].kind == "index")

    def _scan(self, name: Name, label: str) -> Scan:
        targets = [SequenceRef(name, self._word("backward"))]
        while self._take(","):
            targets.append(self._sequence())
        self._expect("=", "',', '=' or 'backward' after a name that a scan assigns")
        if not self._word("scan"):
            raise self._unexpected("'scan', which alone assigns several names")
        step, at = self._step()
        self._expect("(", "'(' and what is carried")
        carried = () if self.token.kind == ";" else self._list(self._tensor_name)
        self._expect(";", "',' or ';' and the sequences")
        sequences = self._list(self._sequence)
        others = self._list(self._tensor_name) if self._take(";") else ()
        self._expect(")", "',', ';' or ')' after a sequence or tensor")
        return Scan(tuple(targets), step, carried, sequences, others, at, label)

    def _step(self) -> tuple[TileFunction, Span]:
        """Parse the name of a scan's function. Returns the function and the position of its
        name."""
        token = self._expect("index", "the name of a function")
        if token.text not in self.steps:
            raise self.source.error(
                f"unknown function {token.text!r}",
                token.span,
                expected=f"one of {', '.join(self.steps)}" if self.steps else "a function above",
                hint="write function NAME (...) -> (...) { ... } before this function",
            )
        return self.steps[token.text], token.span

    def _sequence(self) -> SequenceRef:
        return SequenceRef(self._tensor_name(), self._word("backward"))

    def _tensor_name(self) -> Name:
        return self._name("the name of a tensor")

    def _word(self, word: str) -> bool:
        """Consume the next token if it is this word, and return whether it was."""
        found = (self.token.kind, self.token.text) == ("index", word)
        self.at += found
        return found

    def _contraction(self, name: Name, label: str) -> Contraction:
        target, sizes = self._output(name)
        hint = "write a space between: = =(...)" if self.token.kind == "==" else None
        self._expect("=", "'=' and an aggregation", hint)
        aggregation = self._take(*_AGGREGATIONS)
        if aggregation is None:
            raise self._unexpected(f"an aggregation: {' '.join(_AGGREGATIONS)}")
        self._expect("(")
        combination, inputs = self._combination()
        self._expect(")")
        constraints: list[IndexConstraint] = []
        while self._take(","):
            constraints.append(self._constraint())
        default = None
        while (word := self._take("no_defract", "default")) is not None:
            if word.kind == "default":
                default = self._name("the name of a tensor")
        return Contraction(
            target,
            sizes,
            aggregation.kind,
            combination,
            inputs,
            tuple(constraints),
            default,
            label,
        )

    def _output(self, name: Name) -> tuple[TensorRef, tuple[Expr, ...] | None]:
        self._expect("[")
        forms = () if self.token.kind in (":", "]") else self._list(self._form)
        sizes: tuple[Expr, ...] | None = None if forms else ()
        if self._take(":") and self.token.kind != "]":
            sizes = self._list(self._expression)
        closing = self._expect("]", "',', ':' or ']' in an output")
        return TensorRef(name, forms, name.span.to(closing.span)), sizes

    def _combination(self) -> tuple[str, tuple[TensorRef, ...]]:
        first = self._tensor()
        combination = self._take(*_COMBINATIONS)
        if combination is None:
            return "", (first,)
        second = self._tensor()
        condition = self._take("?")
        if condition is None:
            return combination.kind, (first, second)
        if combination.kind != "==":
            raise self.source.error(
                f"a condition compares with '==', not with {combination}", combination.span
            )
        return "?", (first, second, self._tensor())

    def _tensor(self) -> TensorRef:
        name = self._name("a tensor, such as A[i, j]")
        self._expect("[", "'[' and indices")
        forms = () if self.token.kind == "]" else self._list(self._form)
        closing = self._expect("]", "',' or ']' after an index")
        return TensorRef(name, forms, name.span.to(closing.span))

    def _constraint(self) -> IndexConstraint:
        form = self._form()
        self._expect("<", "'<' of a constraint")
        bound = self._expression()
        return IndexConstraint(form, bound, form.span.to(bound.span))

    # ** expressions **

    def _form(self) -> Expr:
        return self._binary(self.forms)

    def _expression(self) -> Expr:
        condition = self._binary(self.expressions)
        mark = self._take("?")
        if mark is None:
            return condition
        with self._deeper():
            then = self._expression()
        self._expect(":", "':' of a condition")
        otherwise = self._binary(self.expressions)
        if self.token.kind == "?":
            raise self._unexpected(
                "';' or ')'", "write parentheses around a condition within a condition"
            )
        span = condition.span.to(otherwise.span)
        return Apply("cond", (condition, then, otherwise), span, mark.span)

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.source.error(
                "the expression is nested too deeply",
                self.token.span,
                expected=f"at most {MAX_DEPTH} levels",
                hint="compute parts of it in statements of their own",
            )
        yield
        self.depth -= 1

    def _binary(self, grammar: _Grammar, least: int = 0) -> Expr:
        """Parse an expression whose operators have at least the precedence ``least``."""
        with self._deeper():
            left = self._prefix(grammar)
            while (operator := self._operator(grammar)) and operator.level >= least:
                mark = self._next()
                right = self._binary(grammar, operator.level + 1)
                span = left.span.to(right.span)
                left = Apply(operator.function, (left, right), span, mark.span)
                after = self._operator(grammar)
                if after and after.level == operator.level and not operator.chains:
                    raise self._unexpected("no second comparison", "write parentheses")
        return left

    def _operator(self, grammar: _Grammar) -> _Operator | None:
        return grammar.operators.get(self.token.kind)

    def _prefix(self, grammar: _Grammar) -> Expr:
        mark = self._take(*grammar.prefixes)
        if mark is None:
            return self._parenthesised(grammar)
        with self._deeper():
            operand = self._prefix(grammar)
        function = grammar.prefixes[mark.kind]
        return Apply(function, (operand,), mark.span.to(operand.span), mark.span)

    def _parenthesised(self, grammar: _Grammar) -> Expr:
        if not self._take("("):
            return grammar.operand()
        inner = self._form() if grammar is self.forms else self._expression()
        self._expect(")", "an operator or ')'")
        return inner

    def _expression_operand(self) -> Expr:
        token = self._take("int", "float", "name", "index")
        if token is None:
            raise self._unexpected("a number, a name, a function or '('")
        if token.kind in ("int", "float"):
            return self._literal(token)
        if not self._take("("):
            kind = Name if token.kind == "name" else IndexName
            return kind(token.text, token.span)
        arguments: tuple[Expr, ...] = ()
        closing = self._take(")")
        if closing is None:
            with self._deeper():
                arguments = self._list(self._expression)
            closing = self._expect(")", "',' or ')' after an argument")
        return Apply(token.text, arguments, token.span.to(closing.span), token.span)

    def _form_operand(self) -> Expr:
        token = self._take("int", "name", "index")
        if token is None:
            raise self._unexpected("an index, a dimension, an integer or '('")
        if token.kind == "name":
            return Name(token.text, token.span)
        if token.kind == "index":
            return IndexName(token.text, token.span)
        number, index = self._literal(token), self._take("index")
        if index is None:
            return number
        name = IndexName(index.text, index.span)
        return Apply("mul", (number, name), token.span.to(index.span), token.span)

    def _literal(self, token: Token) -> Literal:
        text = token.text.lstrip("0") or "0"
        # Integers of 20 or more digits are out of range anyway, and Python refuses to parse very
        # long ones.
        is_int = token.kind == "int" and len(text) < 20
        value = int(text) if is_int else float(text)
        if math.isinf(value) or (token.kind == "int" and not value < 1 << 63):
            raise self.source.error(
                "a number is too large", token.span, expected="64 bits", found=_shortened(text)
            )
        return Literal(value, token.span)


def _shortened(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}... of {len(text)} digits"


def parse(source: TileText) -> TileFunction:
    """Return the syntax tree of a program. Raises TileError."""
    return _Parser(source, tokens(source)).program()
