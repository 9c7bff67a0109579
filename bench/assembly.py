"""Vector registers that are spilled in inner loops, counted in assembly as LLVM prints it.

Read are x86 in AT&T's and in Intel's syntax, and AArch64. A register counts as spilled where a
vector instruction of a loop that holds no other loop reads or writes the stack.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Spills:
    """What the inner loops of a function do with vectors on the stack."""

    stores: int = 0
    """Instructions that write vectors there."""

    loads: int = 0
    """Instructions that read them."""

    slots: frozenset[str] = field(default_factory=frozenset[str])
    """The places on the stack: one for each spilled register."""

    @property
    def registers(self) -> int:
        """Vector registers that are spilled."""
        return len(self.slots)


def spills(text: str) -> dict[str, Spills]:
    """The spills of every function of an assembly text, by name."""
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
"""A comma outside of brackets."""


def _functions(text: str) -> Iterator[tuple[str, list[str | _Instruction]]]:
    """Names, and lines: the names of labels, and instructions."""
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
    """The basic blocks in the order of the text, with the edges between them."""
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
    """The last operand, which is where a branch goes."""
    return instruction.operands[-1] if instruction.operands else ""


def _inner_loops(blocks: Sequence[_Block]) -> list[frozenset[int]]:
    """The blocks of every loop that holds no other loop."""
    edges = {number: frozenset(block.successors) for number, block in enumerate(blocks)}
    return list(_innermost(edges))


def _innermost(edges: Mapping[int, frozenset[int]]) -> Iterator[frozenset[int]]:
    """Cycles within cycles: without the edges to its head, a loop falls apart into those in it."""
    for loop in _cycles(edges):
        head = min(_entries(loop, edges), default=min(loop))
        inside = {n: edges[n] & loop - {head} for n in loop}
        inner = list(_innermost(inside))
        yield from inner or [loop]


def _entries(loop: frozenset[int], edges: Mapping[int, frozenset[int]]) -> Iterator[int]:
    """The blocks of a loop to which an edge leads from outside."""
    for number, successors in edges.items():
        if number not in loop:
            yield from successors & loop


def _cycles(edges: Mapping[int, frozenset[int]]) -> Iterator[frozenset[int]]:
    """The strongly connected components that have a cycle, by Kosaraju's algorithm."""
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
    """What is reached from a block and was not seen yet, each after all that follow it."""
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
"""An operand in memory: its base register, and the distance from there in bytes."""

_STACK = frozenset(("rsp", "sp"))
_FRAMES = frozenset(("rbp", "rbx", "x29", "x19"))
"""Registers that may point into the frame: where the stack pointer is copied to them."""


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
    """The register to which this copies the stack pointer, or an address near it."""
    names = {o.lstrip("%") for o in instruction.operands}
    copies = instruction.mnemonic in ("mov", "movq", "add")
    return _FRAMES & names if copies and names & _STACK else frozenset[str]()


def _address(operand: str) -> re.Match[str] | None:
    found = (pattern.search(operand) for pattern in _ADDRESSES)
    return next((match for match in found if match is not None), None)


def _stack_operand(instruction: _Instruction, stack: frozenset[str]) -> int | None:
    """Which operand is on the stack."""
    for number, operand in enumerate(instruction.operands):
        address = _address(operand)
        if address is not None and address["base"] in stack:
            return number
    return None


def _slots(instruction: _Instruction, place: int) -> set[str]:
    """Where vectors are on the stack: one place, two for a pair, none for other registers."""
    address = _address(instruction.operands[place])
    assert address is not None
    at = _number(address["at"])
    if any(_X86_VECTOR.search(operand) for operand in instruction.operands):
        return {f"{address['base']} {at}"}
    vectors = (_ARM_VECTOR.match(operand) for operand in instruction.operands)
    sizes = [_ARM_BYTES[match[1]] for match in vectors if match is not None]
    return {f"{address['base']} {at + sum(sizes[:i])}" for i in range(len(sizes))}


def _number(text: str | None) -> int:
    """A distance in bytes; 0 where there is none, or a register."""
    text = (text or "").replace(" ", "")
    return int(text, 0) if re.fullmatch(r"[+-]?(0x[\da-f]+|\d+)", text) else 0


def _stores(instruction: _Instruction, place: int) -> bool:
    """Whether the operand in memory is written: AT&T's last one, Intel's first, AArch64's `st`."""
    operand = instruction.operands[place]
    if _ARM_ADDRESS.match(operand):
        return instruction.mnemonic.startswith("st")
    last = len(instruction.operands) - 1
    return place == (last if _ATT_ADDRESS.search(operand) else 0)
