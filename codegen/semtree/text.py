"""The printer of trees for readers, as PlaidML prints its Semtree.

kernel k_matmul(global f32 p0, global f32 p1, global f32 p2)
  // 4 groups of 256 work-items
  local f32 l0[264]
  i32 item = device.item
  ..
  load input 0:
    for i32 e in item .. 256 step 256:
      l0[near] = p0[far]
  barrier
"""

from __future__ import annotations

from collections.abc import Iterator

from tessella.codegen.semtree.printer import Printer
from tessella.codegen.semtree.scalars import INFIX
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

_INDENT = "  "


class TreePrinter(Printer):
    """Writes trees as indented text."""

    def text(self, kernel: Kernel) -> str:
        """Return a kernel, with the log of the search for its tiles."""
        return "\n".join([*_kernel(kernel), ""])


def _kernel(kernel: Kernel) -> Iterator[str]:
    sizes = [f"{name.type} {name.name} = {size}" for name, size in kernel.sizes.items()]
    yield f"kernel {kernel.name}({', '.join([*map(_memory, kernel.tensors), *sizes])}):"
    for note in (f"{kernel.groups} groups of {kernel.items} work-items", *kernel.notes):
        for line in note.splitlines():
            yield f"{_INDENT}// {line}"
    for each in kernel.local:
        yield f"{_INDENT}{_memory(each)}[{each.size}]"
    yield from _block(kernel.body)


def _memory(memory: Memory) -> str:
    return f"{memory.space} {memory.element} {memory.name}"


def _block(block: Block) -> Iterator[str]:
    for statement in block:
        for line in _lines(statement):
            yield _INDENT + line


def _lines(statement: Statement) -> Iterator[str]:
    match statement:
        case Declare(name, value):
            yield f"{name.type} {name.name} = {_text(value)}"
        case Reserve(memory):
            yield f"{_memory(memory)}[{memory.size}]"
        case Assign(name, value):
            yield f"{name.name} = {_text(value)}"
        case Store(at, value):
            yield f"{_text(at)} = {_text(value)}"
        case Barrier():
            yield "barrier"
        case Return():
            yield "return"
        case _:
            yield from _nested(statement)


def _nested(statement: Nested) -> Iterator[str]:
    match statement:
        case Loop(index, first, end, step, body):
            steps = f" step {step}" if step != 1 else ""
            word = "unroll" if statement.is_unrolled else "for"
            yield f"{word} {index.type} {index.name} in {_text(first)} .. {_text(end)}{steps}:"
            yield from _block(body)
        case Guard(condition, body):
            yield f"guard {_text(condition)}:"
            yield from _block(body)
        case Branch(condition, body, otherwise):
            yield f"branch {_text(condition)}:"
            yield from _block(body)
            if otherwise:
                yield "otherwise:"
                yield from _block(otherwise)
        case Section(title, body):
            yield f"{title}:"
            yield from _block(body)


def _text(value: Expression) -> str:
    match value:
        case Number():
            return f"{value.value}"
        case Name():
            return value.name
        case Load(memory, at):
            return f"{memory.name}[{_text(at)}]"
        case Apply(op, ()):
            return op
        case Apply(op, (a, b)) if op in INFIX:
            return f"{_operand(a)} {INFIX[op]} {_operand(b)}"
        case Apply(op, operands):
            return f"{op}({', '.join(map(_text, operands))})"


def _operand(value: Expression) -> str:
    return f"({_text(value)})" if isinstance(value, Apply) and value.op in INFIX else _text(value)
