"""Vector registers that are spilled in inner loops, counted in LLVM's assembly.

It reads x86 in AT&T and in Intel syntax, and AArch64. A register counts as spilled if a vector
instruction of an innermost loop reads or writes the stack.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Spills:
    """Vector accesses to the stack in a function's inner loops."""

    stores: int = 0
    """Instructions that write vectors to the stack."""

    loads: int = 0
    """Instructions that read vectors from the stack."""

    slots: frozenset[str] = field(default_factory=frozenset[str])
    """The stack slots: one for each spilled register."""

    @property
    def registers(self) -> int:
        """Spilled vector registers."""
        return len(self.slots)


def spills(text: str) -> dict[str, Spills]:
    """Return the spills of every function of an assembly text, by name."""
    return {name: _count(lines) for name, lines in _functions(text)}


class _Instruction(NamedTuple):
    mnemonic: str
    operands: tuple[str, ...]


@dataclass
class _Block:
    """Instructions up to a branch or a label."""

    instructions: list[_Instruction] = field(default_factory=list[_Instruction])
    successors: list[int] = field(default_factory=list[int])


# ** reading **

_COMMENT = re.compile(r"(?:^|\s)#(?=[\s#]).*|//.*|(?:^|\s);.*")
"""`# text` on x86 (AArch64 has immediates such as `#16`), `//` and `;` on AArch64."""

_LABEL = re.compile(r'^("[^"]*"|[\w.$@]+):')
_LOCAL = re.compile(r"^(\.L|L[A-Z]+\d|ltmp)")
_SEPARATOR = re.compile(r",(?![^(\[{]*[)\]}])")
"""A comma outside brackets."""


def _functions(text: str) -> Iterator[tuple[str, list[str | _Instruction]]]:
    """Yield names and lines: labels as text, and instructions."""
    name, lines = "", list[str | _Instruction]()
    for line in text.splitlines():
        line = _COMMENT.sub("", line).rstrip()
        label = _LABEL.match(line)
        if label is not None and not _LOCAL.match(label[1]):
            if name:
                yield name, lines
            name, lines = label[1].strip('"'), []
        elif label is not None:
            lines.append(label[1])
        elif line.strip() and not line.lstrip().startswith("."):
            lines.append(_instruction(line.strip()))
    if name:
        yield name, lines


def _instruction(line: str) -> _Instruction:
    mnemonic, _, rest = line.partition("\t" if "\t" in line else " ")
    return _Instruction(mnemonic, tuple(o.strip() for o in _SEPARATOR.split(rest.strip()) if o))


# ** loops **

_JUMPS = frozenset(("jmp", "jmpq", "b"))
_ENDS = _JUMPS | frozenset(("ret", "retq", "ud2", "br", "brk"))


def _blocks(lines: Sequence[str | _Instruction]) -> list[_Block]:
    """Return the basic blocks in text order, with the edges between them."""
    blocks, starts = [_Block()], dict[str, int]()
    for line in lines:
        if isinstance(line, str):
            if blocks[-1].instructions:
                blocks.append(_Block())
            starts[line] = len(blocks) - 1
            continue
        blocks[-1].instructions.append(line)
        if line.mnemonic in _ENDS or _target(line).startswith((".L", "L")):
            blocks.append(_Block())
    for number, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else _Instruction("", ())
        if (to := starts.get(_target(last))) is not None:
            block.successors.append(to)
        if last.mnemonic not in _ENDS and number + 1 < len(blocks):
            block.successors.append(number + 1)
    return blocks


def _target(instruction: _Instruction) -> str:
    """Return the last operand, which is a branch's target."""
    return instruction.operands[-1] if instruction.operands else ""


def _inner_loops(blocks: Sequence[_Block]) -> list[frozenset[int]]:
    """Return the blocks of every innermost loop."""
    edges = {number: frozenset(block.successors) for number, block in enumerate(blocks)}
    return list(_innermost(edges))


def _innermost(edges: Mapping[int, frozenset[int]]) -> Iterator[frozenset[int]]:
    """Yield innermost cycles: removing the edges to its head leaves the loops inside it."""
    for loop in _cycles(edges):
        head = min(_entries(loop, edges), default=min(loop))
        inside = {n: edges[n] & loop - {head} for n in loop}
        inner = list(_innermost(inside))
        yield from inner or [loop]


def _entries(loop: frozenset[int], edges: Mapping[int, frozenset[int]]) -> Iterator[int]:
    """Yield the blocks of a loop with an edge from outside."""
    for number, successors in edges.items():
        if number not in loop:
            yield from successors & loop


def _cycles(edges: Mapping[int, frozenset[int]]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components with a cycle, by Kosaraju's algorithm."""
    backwards: dict[int, set[int]] = {node: set() for node in edges}
    for node, successors in edges.items():
        for successor in successors:
            backwards[successor].add(node)
    seen: set[int] = set()
    finished: set[int] = set()
    order = [node for root in edges for node in _postorder(root, edges, finished)]
    for root in reversed(order):
        members = frozenset(_postorder(root, backwards, seen))
        if len(members) > 1 or any(node in edges[node] for node in members):
            yield members


def _postorder(root: int, edges: Mapping[int, Collection[int]], seen: set[int]) -> Iterator[int]:
    """Yield unseen blocks reachable from a block, in postorder."""
    path = [] if root in seen else [(root, iter(edges[root]))]
    seen.add(root)
    while path:
        node, successors = path[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            path.pop()
            yield node
        else:
            seen.add(following)
            path.append((following, iter(edges[following])))


# ** the stack **

_X86_VECTOR = re.compile(r"\b[xyz]mm\d+")
_ARM_VECTOR = re.compile(r"^\{?\s*([qdsv])\d+")
_ARM_BYTES = {"q": 16, "v": 16, "d": 8, "s": 4}

_ATT_ADDRESS = re.compile(r"^(?P<at>-?\w*)\(%(?P<base>\w+)")
_INTEL_ADDRESS = re.compile(r"ptr \[\s*(?P<base>\w+)\s*(?P<at>[+-]?\s*\w*)")
_ARM_ADDRESS = re.compile(r"^\[(?P<base>\w+)(?:,\s*#(?P<at>-?\w+))?")
_ADDRESSES = (_ATT_ADDRESS, _INTEL_ADDRESS, _ARM_ADDRESS)
"""A memory operand: its base register, and its offset in bytes."""

_STACK = frozenset(("rsp", "sp"))
_FRAMES = frozenset(("rbp", "rbx", "x29", "x19"))
"""Registers that may point into the frame, if the stack pointer is copied to them."""


def _count(lines: Sequence[str | _Instruction]) -> Spills:
    blocks = _blocks(lines)
    stack = _STACK | {r for block in blocks for i in block.instructions for r in _frame(i)}
    stores = loads = 0
    slots: set[str] = set()
    for number in frozenset[int]().union(*_inner_loops(blocks)):
        for instruction in blocks[number].instructions:
            place = _stack_operand(instruction, stack)
            if place is not None and (moved := _slots(instruction, place)):
                stored = _stores(instruction, place)
                stores, loads = stores + stored, loads + (not stored)
                slots |= moved
    return Spills(stores, loads, frozenset(slots))


def _frame(instruction: _Instruction) -> frozenset[str]:
    """Return the register to which the stack pointer, or an address near it, is copied."""
    names = {o.lstrip("%") for o in instruction.operands}
    copies = instruction.mnemonic in ("mov", "movq", "add")
    return _FRAMES & names if copies and names & _STACK else frozenset[str]()


def _address(operand: str) -> re.Match[str] | None:
    found = (pattern.search(operand) for pattern in _ADDRESSES)
    return next((match for match in found if match is not None), None)


def _stack_operand(instruction: _Instruction, stack: frozenset[str]) -> int | None:
    """Return the index of the operand on the stack."""
    for number, operand in enumerate(instruction.operands):
        address = _address(operand)
        if address is not None and address["base"] in stack:
            return number
    return None


def _slots(instruction: _Instruction, place: int) -> set[str]:
    """Return the stack slots of vectors: one, two for a pair, none for other registers."""
    address = _address(instruction.operands[place])
    assert address is not None
    at = _number(address["at"])
    if any(_X86_VECTOR.search(operand) for operand in instruction.operands):
        return {f"{address['base']} {at}"}
    vectors = (_ARM_VECTOR.match(operand) for operand in instruction.operands)
    sizes = [_ARM_BYTES[match[1]] for match in vectors if match is not None]
    return {f"{address['base']} {at + sum(sizes[:i])}" for i in range(len(sizes))}


def _number(text: str | None) -> int:
    """Parse an offset in bytes; 0 if there is none, or a register."""
    text = (text or "").replace(" ", "")
    return int(text, 0) if re.fullmatch(r"[+-]?(0x[\da-f]+|\d+)", text) else 0


def _stores(instruction: _Instruction, place: int) -> bool:
    """Return whether the memory operand is written: AT&T's last one, Intel's first, AArch64's
    `st`."""
    operand = instruction.operands[place]
    if _ARM_ADDRESS.match(operand):
        return instruction.mnemonic.startswith("st")
    last = len(instruction.operands) - 1
    return place == (last if _ATT_ADDRESS.search(operand) else 0)
