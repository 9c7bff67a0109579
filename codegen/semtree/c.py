"""The printer of trees in a dialect of C: OpenCL C or CUDA C.

    __kernel void NAME(__global float *p0_base, long p0_at, .., int s0) {
      __global float *p0 = ..
      ..
    }

A tensor is passed as an address and an offset in bytes. Symbolic sizes follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tessella.codegen.semtree import tree
from tessella.codegen.semtree.printer import Printer
from tessella.codegen.semtree.scalars import CASTS, FUNCTIONS, INFIX
from tessella.codegen.semtree.tree import (
    Apply,
    Assign,
    Barrier,
    Block,
    Branch,
    Declare,
    Expression,
    Guard,
    Kernel,
    Load,
    Loop,
    Memory,
    Name,
    Nested,
    Number,
    Reserve,
    Return,
    Section,
    Statement,
    Store,
)
from tessella.codegen.semtree.words import Words
from tessella.targets.device_facts import DeviceFacts

_INDENT = "  "
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "+ -", "* / %")
"""The operators of C between two operands, the weakest first."""
_STRENGTH = {sign: i for i, signs in enumerate(_LEVELS) for sign in signs.split()}
_CHOICE, _UNARY, _ATOM = -1, len(_LEVELS), len(_LEVELS) + 1
"""The strengths of a conditional expression, a unary operator and a name."""
_CALLS: Mapping[str, str] = {
    **FUNCTIONS,
    "arith.truncf": "to_half",
    "arith.maximumf": "max_of",
    "arith.minimumf": "min_of",
    "arith.maxsi": "max",
    "arith.minsi": "min",
}
_ORDERED = {
    "oeq": "{0} == {1}",
    "ogt": "{0} > {1}",
    "oge": "{0} >= {1}",
    "olt": "{0} < {1}",
    "ole": "{0} <= {1}",
    "one": "{0} < {1} || {0} > {1}",
    "ord": "{0} == {0} && {1} == {1}",
}
"""The comparisons of floats that are false if an operand is NaN."""
_OPPOSITE = {
    "ueq": "one",
    "ugt": "ole",
    "uge": "olt",
    "ult": "oge",
    "ule": "ogt",
    "une": "oeq",
    "uno": "ord",
}
"""The comparisons that are true if an operand is NaN, by the comparison that they negate."""


@dataclass(frozen=True)
class CPrinter(Printer):
    """A printer that writes trees in a dialect of C, with the keywords and functions of that
    dialect."""

    words: Words
    facts: DeviceFacts | None = None

    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel, after the functions that it calls."""
        return self.words.prelude + "\n".join([*self._kernel(kernel), ""])

    def program(self, texts: Sequence[str], notes: Sequence[str]) -> str:
        """Return one program with the functions once, and each kernel after a comment."""
        prelude = self.words.prelude
        pairs = zip(texts, notes, strict=True)
        kernels = [f"// {note}\n{text.removeprefix(prelude)}" for text, note in pairs]
        return "\n".join([prelude, *kernels])

    def _kernel(self, kernel: Kernel) -> Iterator[str]:
        pointers = {each: self._pointer(each) for each in kernel.tensors}
        long = self.words.types[tree.INDEX]
        parameters = [f"{kind}{x.name}_base, {long} {x.name}_at" for x, kind in pointers.items()]
        parameters += [f"{self.words.types[x.type]} {x.name}" for x in kernel.sizes]
        head = self.words.kernel.format(items=kernel.items)
        yield f"{head} {kernel.name}({', '.join(parameters)}) {{"
        for each, kind in pointers.items():
            bytes_ = f"({self.words.spaces['global']}char *){each.name}_base + {each.name}_at"
            yield f"{_INDENT}{kind}{each.name} = ({kind.strip()})({bytes_});"
        for each in kernel.local:
            yield _INDENT + self._array(each)
        yield from self._block(kernel.body)
        yield "}"

    def _pointer(self, memory: Memory) -> str:
        return f"{self.words.spaces[memory.space]}{self.words.type_in_memory(memory.element)} *"

    def _array(self, memory: Memory) -> str:
        kind = (
            self.words.types[memory.element]
            if memory.space == "private"
            else self.words.type_in_memory(memory.element)
        )
        return f"{self.words.spaces[memory.space]}{kind} {memory.name}[{memory.size}];"

    # ** statements **

    def _block(self, block: Block) -> Iterator[str]:
        for statement in block:
            for line in self._statement(statement):
                yield _INDENT + line

    def _statement(self, statement: Statement) -> Iterator[str]:
        write = self.expression
        match statement:
            case Declare(name, value, changes):
                kind = ("" if changes else "const ") + self.words.types[name.type]
                yield f"{kind} {name.name} = {write(value)};"
            case Reserve(memory):
                yield self._array(memory)
            case Assign(name, value):
                yield f"{name.name} = {write(value)};"
            case Store(at, value):
                plain = f"{write(at)} = {write(value)}"
                half = self._half(at, self.words.store_half, write(value))
                yield f"{half if _is_half(at) else plain};"
            case Barrier():
                yield f"{self.words.barrier};"
            case Return():
                yield "return;"
            case _:
                yield from self._nested(statement)

    def _nested(self, statement: Nested) -> Iterator[str]:
        write = self.expression
        match statement:
            case Loop():
                if statement.is_unrolled:
                    yield "#pragma unroll"
                yield from self._braces(self._head(statement), statement.body)
            case Guard(condition, body):
                yield from self._braces(f"if ({write(condition)})", body)
            case Branch(condition, body, otherwise):
                yield from self._braces(f"if ({write(condition)})", body)
                if otherwise:
                    yield from self._braces("else", otherwise)
            case Section(title, body):
                yield f"// {title}"
                yield from self._braces("", body)

    def _braces(self, head: str, body: Block) -> Iterator[str]:
        yield f"{head} {{".strip()
        yield from self._block(body)
        yield "}"

    def _head(self, loop: Loop) -> str:
        i, step = loop.index.name, f"+= {loop.step}"
        first, end = self.expression(loop.first), self.expression(loop.end)
        kind = self.words.types[loop.index.type]
        return f"for ({kind} {i} = {first}; {i} < {end}; {i} {step})"

    # ** expressions **

    def expression(self, value: Expression) -> str:
        """Return the text of an expression."""
        return self._within(value, _CHOICE)

    def _within(self, value: Expression, least: int) -> str:
        """Return the text of an expression as an operand, in parentheses if its operator binds less
        than ``least``."""
        text, strength = self._text(value)
        return text if strength >= least else f"({text})"

    def _text(self, value: Expression) -> tuple[str, int]:
        """Return the text of an expression, and how strongly its operator binds."""
        match value:
            case Number():
                return self._number(value), _ATOM if value.value >= 0 else _UNARY
            case Name():
                return value.name, _ATOM
            case Load() if _is_half(value):
                return self._half(value, self.words.load_half), _ATOM
            case Load(memory, at):
                return f"{memory.name}[{self.expression(at)}]", _ATOM
            case Apply():
                return self._apply(value)

    def _half(self, load: Load, form: str, value: str = "") -> str:
        """Return the text of a load of an `f16` in global or local memory, or of the store of
        ``value``."""
        at, memory = self.expression(load.at), load.memory
        space = self.words.spaces[memory.space]
        return form.format(at=at, space=space, name=memory.name, value=value)

    def _apply(self, value: Apply) -> tuple[str, int]:
        op, operands = value.op, value.operands
        if op in self.words.ids:
            return self.words.ids[op], _ATOM
        if op == tree.CHECKED:
            return f"checked({', '.join(map(self.expression, operands))}, {tree.WORD.name})", _ATOM
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(map(self.expression, operands))})", _ATOM
        if op in INFIX:
            return self._infix(value)
        if op in CASTS:
            return f"({self.words.types[value.type]}){self._within(operands[0], _UNARY)}", _UNARY
        if op == "arith.negf":
            return f"-{self._within(operands[0], _ATOM)}", _UNARY
        if op == "arith.select":
            parts = [self._within(each, _CHOICE + 1) for each in operands]
            return "{} ? {} : {}".format(*parts), _CHOICE
        return self._comparison(op.rpartition(".")[2], operands)

    def _infix(self, value: Apply) -> tuple[str, int]:
        sign = INFIX[value.op]
        strength = _STRENGTH[sign]
        left, right = value.operands
        first, second = self._within(left, strength), self._within(right, strength + 1)
        if sign == "+" and isinstance(right, Number) and right.value < 0:
            return f"{first} - {self._number(replace(right, value=-right.value))}", strength
        if value.op.startswith("arith.cmpi.u"):
            first = f"({self.words.unsigned[left.type]}){self._within(left, _ATOM)}"
        return f"{first} {sign} {second}", strength

    def _comparison(self, predicate: str, operands: tuple[Expression, ...]) -> tuple[str, int]:
        names = [self._within(each, _ATOM) for each in operands]
        if predicate in _OPPOSITE:
            return f"!({_ORDERED[_OPPOSITE[predicate]].format(*names)})", _UNARY
        return _ORDERED[predicate].format(*names), 0

    def _number(self, number: Number) -> str:
        """Return a number as a literal: an integer, or a float in hexadecimal, which is exact."""
        value = number.value
        if number.type not in tree.FLOATS:
            return str(int(value)) if value > -(1 << 63) else f"({int(value) + 1} - 1)"
        if math.isnan(value):
            return self.words.nan
        if math.isinf(value):
            return self.words.infinity if value > 0 else f"-{self.words.infinity}"
        return f"{float(value).hex()}f"


def _is_half(load: Load) -> bool:
    """Return whether an element is an `f16` in memory. Registers hold it as a float."""
    return load.type == "f16" and load.memory.space != "private"
