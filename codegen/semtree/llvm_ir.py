"""The printer of trees in LLVM IR, from which LLVM compiles SPIR-V for OpenCL.

    define spir_kernel void @NAME(ptr addrspace(1) %p0_base, i64 %p0_at, ..) {
      %v0 = getelementptr i8, ptr addrspace(1) %p0_base, i64 %p0_at
      ..
    }

Variables that do not change are values; the others are in private memory. Functions of OpenCL are
called by their mangled names, which LLVM replaces by instructions of SPIR-V.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tessella.codegen import spirv
from tessella.codegen.semtree import tree
from tessella.codegen.semtree.printer import Printer
from tessella.codegen.semtree.scalars import CASTS, FUNCTIONS
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

_COMMON = ("target ", "declare ")
"""The beginnings of the lines that the modules of several kernels share."""
_TYPES: Mapping[str, str] = {
    "f32": "float",
    "f16": "half",
    "bool": "i1",
    "i32": "i32",
    "i64": "i64",
}
_STORED: Mapping[str, str] = {**_TYPES, "bool": "i8"}
_SPACES = {"private": "", "global": " addrspace(1)", "local": " addrspace(3)"}
_IDS = {tree.GROUP_ID: "_Z12get_group_idj", tree.ITEM_ID: "_Z12get_local_idj"}
_BARRIER = "call spir_func void @_Z7barrierj(i32 1)"
_INSTRUCTIONS: Mapping[str, str] = {
    **{f"arith.{name}f": f"f{name}" for name in ("add", "sub", "mul", "div")},
    **{f"arith.{name}i": name for name in ("add", "sub", "mul", "and", "or", "xor")},
    "arith.divsi": "sdiv",
    "arith.remsi": "srem",
    tree.BOTH: "and",
}
"""The instructions with two operands of one type, which the result has too."""
_SELECTED = {
    "arith.minsi": "icmp slt",
    "arith.maxsi": "icmp sgt",
    "arith.minimumf": "fcmp olt",
    "arith.maximumf": "fcmp ogt",
}
"""The ops that return the first operand if this comparison holds, and the second one otherwise."""
_PROPAGATING = {"arith.minimumf", "arith.maximumf"}
"""The ops that also return the first operand if it is NaN."""
_HEADER = f"""\
target triple = "{spirv.TRIPLE}"

declare spir_func i64 @_Z12get_group_idj(i32)
declare spir_func i64 @_Z12get_local_idj(i32)
declare spir_func void @_Z7barrierj(i32)
"""


class SpirvPrinter(Printer):
    """Writes trees in LLVM IR, and compiles programs to the assembly of SPIR-V."""

    def text(self, kernel: Kernel) -> str:
        """Return a kernel in LLVM IR."""
        return _Function(kernel).text()

    def program(self, texts: Sequence[str], notes: Sequence[str]) -> str:
        """Return a program in the assembly of SPIR-V."""
        return spirv.assembly(_joined(texts))

    def file(self, texts: Sequence[str], notes: Sequence[str]) -> bytes:
        """Return a program as a binary module."""
        return spirv.binary(_joined(texts))


def _joined(texts: Sequence[str]) -> str:
    """Return one module with the kernels of several. Equal declarations occur once."""
    lines = [line for text in texts for line in text.splitlines()]
    common = [line for line in lines if line.startswith(_COMMON)]
    return "\n".join([*dict.fromkeys(common), *(x for x in lines if not x.startswith(_COMMON)), ""])


@dataclass
class _Function:
    """The text of a kernel in LLVM IR, while it is being written."""

    kernel: Kernel
    lines: list[str] = field(default_factory=list[str])
    reserved: list[str] = field(default_factory=list[str])
    """The lines that reserve private memory, at the beginning of the kernel."""
    declared: dict[str, None] = field(default_factory=dict[str, None])
    """The declarations of the functions that the kernel calls."""
    values: dict[str, str] = field(default_factory=dict[str, str])
    """The values of variables that do not change, and the addresses of arrays, by name."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """The addresses of variables that change, by name."""
    fresh: Iterator[int] = field(default_factory=count)

    def text(self) -> str:
        """Return the module."""
        kernel = self.kernel
        for each in kernel.tensors:
            self.values[each.name] = self._set(
                f"getelementptr i8, ptr addrspace(1) %{each.name}_base, i64 %{each.name}_at"
            )
        for each in kernel.sizes:
            self.values[each.name] = f"%{each.name}"
        for each in kernel.local:
            self.values[each.name] = f"@{kernel.name}.{each.name}"
        self._block(kernel.body)
        arrays = [
            f"@{kernel.name}.{x.name} = internal addrspace(3) global {_array(x)} undef"
            for x in kernel.local
        ]
        parameters = [f"ptr addrspace(1) %{x.name}_base, i64 %{x.name}_at" for x in kernel.tensors]
        parameters += [f"{_TYPES[x.type]} %{x.name}" for x in kernel.sizes]
        group = f"!reqd_work_group_size !{{i32 {kernel.items}, i32 1, i32 1}}"
        head = f"define spir_kernel void @{kernel.name}({', '.join(parameters)}) {group} {{"
        body = [f"  {line}" for line in (*self.reserved, *self.lines, "ret void")]
        return "\n".join([_HEADER, *self.declared, *arrays, head, *body, "}", ""])

    # ** instructions **

    def _set(self, instruction: str) -> str:
        """Write an instruction. Returns its value."""
        name = f"%v{next(self.fresh)}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def _reserve(self, type: str) -> str:
        """Reserve private memory. Returns its address."""
        name = f"%a{next(self.fresh)}"
        self.reserved.append(f"{name} = alloca {type}")
        return name

    def _label(self) -> str:
        return f"b{next(self.fresh)}"

    def _go(self, label: str) -> None:
        self.lines.append(f"br label %{label}")

    def _at(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def _call(self, name: str, type: str, operands: Sequence[tuple[str, str]]) -> str:
        """Write the call of a function of OpenCL. Returns its result."""
        kinds = ", ".join(kind for kind, _ in operands)
        self.declared[f"declare spir_func {type} @{name}({kinds})"] = None
        given = ", ".join(f"{kind} {value}" for kind, value in operands)
        return self._set(f"call spir_func {type} @{name}({given})")

    # ** statements **

    def _block(self, block: Block) -> None:
        """Write a block. Its variables are forgotten at its end."""
        values, variables = dict(self.values), dict(self.variables)
        for statement in block:
            self._statement(statement)
        self.values, self.variables = values, variables

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Declare(name, value, changes=False):
                self.variables.pop(name.name, None)
                self.values[name.name] = self._value(value, name.type)
            case Declare(name, value):
                self.variables[name.name] = self._reserve(_TYPES[name.type])
                self._assign(name, value)
            case Reserve(memory):
                self.values[memory.name] = self._reserve(_array(memory))
            case Assign(name, value):
                self._assign(name, value)
            case Store(at, value):
                self._store(at, value)
            case Barrier():
                self.lines.append(_BARRIER)
            case Return():
                self.lines.append("ret void")
                self._at(self._label())
            case _:
                self._nested(statement)

    def _nested(self, statement: Nested) -> None:
        match statement:
            case Loop():
                self._loop(statement)
            case Guard(condition, body):
                self._branch(condition, body, ())
            case Branch(condition, body, otherwise):
                self._branch(condition, body, otherwise)
            case Section(_, body):
                self._block(body)

    def _assign(self, name: Name, value: Expression) -> None:
        found, to = self._value(value, name.type), self.variables[name.name]
        self.lines.append(f"store {_TYPES[name.type]} {found}, ptr {to}")

    def _store(self, at: Load, value: Expression) -> None:
        found = self._value(value, at.type)
        if at.type == "bool":
            found = self._set(f"zext i1 {found} to i8")
        kind, space = _STORED[at.type], _SPACES[at.memory.space]
        self.lines.append(f"store {kind} {found}, ptr{space} {self._address(at)}")

    def _loop(self, loop: Loop) -> None:
        kind, i = _TYPES[loop.index.type], loop.index.name
        head, body, after = self._label(), self._label(), self._label()
        outer = dict(self.variables)
        first = self._value(loop.first, loop.index.type)
        self.variables[i] = counter = self._reserve(kind)
        self.lines.append(f"store {kind} {first}, ptr {counter}")
        self._go(head)
        self._at(head)
        now = self._set(f"load {kind}, ptr {counter}")
        end = self._value(loop.end, loop.index.type)
        more = self._set(f"icmp slt {kind} {now}, {end}")
        self.lines.append(f"br i1 {more}, label %{body}, label %{after}")
        self._at(body)
        self._block(loop.body)
        again = self._set(f"load {kind}, ptr {counter}")
        next_ = self._set(f"add {kind} {again}, {loop.step}")
        self.lines.append(f"store {kind} {next_}, ptr {counter}")
        self._go(head)
        self._at(after)
        self.variables = outer

    def _branch(self, condition: Expression, body: Block, otherwise: Block) -> None:
        yes, no, after = self._label(), self._label(), self._label()
        test = self._value(condition, "bool")
        self.lines.append(f"br i1 {test}, label %{yes}, label %{no}")
        for label, block in ((yes, body), (no, otherwise)):
            self._at(label)
            self._block(block)
            self._go(after)
        self._at(after)

    # ** expressions **

    def _value(self, value: Expression, type: str) -> str:
        """Write the computation of an expression, converted to a type. Returns its value."""
        match value:
            case Number(data):
                return _number(data, type)
            case Name(name):
                found = self.variables.get(name)
                kind = _TYPES[value.type]
                read = (
                    self.values[name] if found is None else self._set(f"load {kind}, ptr {found}")
                )
            case Load():
                read = self._load(value)
            case Apply():
                read = self._apply(value)
        return self._converted(read, value.type, type)

    def _converted(self, value: str, given: str, wanted: str) -> str:
        if given == wanted:
            return value
        return self._set(
            f"{_CONVERSIONS[given, wanted]} {_TYPES[given]} {value} to {_TYPES[wanted]}"
        )

    def _address(self, at: Load) -> str:
        kind, space = _STORED[at.type], _SPACES[at.memory.space]
        index = self._value(at.at, tree.INDEX)
        return self._set(
            f"getelementptr {kind}, ptr{space} {self.values[at.memory.name]}, i64 {index}"
        )

    def _load(self, at: Load) -> str:
        kind, space = _STORED[at.type], _SPACES[at.memory.space]
        found = self._set(f"load {kind}, ptr{space} {self._address(at)}")
        return self._set(f"icmp ne i8 {found}, 0") if at.type == "bool" else found

    def _apply(self, value: Apply) -> str:
        op, operands, type = value.op, value.operands, value.type
        if op in _IDS:
            found = self._call(_IDS[op], "i64", [("i32", "0")])
            return self._converted(found, "i64", type)
        if op in CASTS:
            return self._value(operands[0], type)
        if op.startswith("arith.cmp"):
            return self._comparison(value)
        if op == tree.CHECKED:
            return self._checked(*operands)
        if op == "arith.select":
            test, a, b = operands
            return self._select(
                self._value(test, "bool"), self._value(a, type), self._value(b, type), type
            )
        return self._computed(op, operands, type)

    def _computed(self, op: str, operands: Sequence[Expression], type: str) -> str:
        """Write an op whose operands have the type of the result."""
        values = [self._value(each, type) for each in operands]
        kind = _TYPES[type]
        if op in FUNCTIONS:
            name = f"_Z{len(FUNCTIONS[op])}{FUNCTIONS[op]}{'f' * len(values)}"
            return self._call(name, kind, [(kind, each) for each in values])
        if op in _SELECTED:
            a, b = values
            return self._selected(op, a, b, type)
        if op == "arith.negf":
            return self._set(f"fneg {kind} {values[0]}")
        return self._set(f"{_INSTRUCTIONS[op]} {kind} {', '.join(values)}")

    def _select(self, test: str, a: str, b: str, type: str) -> str:
        kind = _TYPES[type]
        return self._set(f"select i1 {test}, {kind} {a}, {kind} {b}")

    def _selected(self, op: str, a: str, b: str, type: str) -> str:
        kind = _TYPES[type]
        test = self._set(f"{_SELECTED[op]} {kind} {a}, {b}")
        if op in _PROPAGATING:
            nan = self._set(f"fcmp uno {kind} {a}, {a}")
            test = self._set(f"or i1 {test}, {nan}")
        return self._select(test, a, b, type)

    def _comparison(self, value: Apply) -> str:
        kind, _, predicate = value.op.removeprefix("arith.").partition(".")
        types = {each.type for each in value.operands}
        type = tree.INDEX if tree.INDEX in types else value.operands[0].type
        a, b = (self._value(each, type) for each in value.operands)
        return self._set(f"{kind.replace('cmp', '')}cmp {predicate} {_TYPES[type]} {a}, {b}")

    def _checked(self, at: Expression, size: Expression) -> str:
        """Write the check of a coordinate. Returns the coordinate, or 0 if it is out of range."""
        value, end = self._value(at, tree.INDEX), self._value(size, tree.INDEX)
        inside, outside, after = (
            self._set(f"icmp ult i64 {value}, {end}"),
            *(self._label() for _ in range(2)),
        )
        self.lines.append(f"br i1 {inside}, label %{after}, label %{outside}")
        self._at(outside)
        self.lines.append(f"store i32 1, ptr addrspace(1) {self.values[tree.WORD.name]}")
        self._go(after)
        self._at(after)
        return self._select(inside, value, "0", tree.INDEX)


_CONVERSIONS = {
    ("bool", "i32"): "zext",
    ("bool", "i64"): "zext",
    ("bool", "f32"): "uitofp",
    ("i32", "i64"): "sext",
    ("i32", "f32"): "sitofp",
    ("i64", "i32"): "trunc",
    ("i64", "f32"): "sitofp",
    ("f16", "f32"): "fpext",
    ("f32", "f16"): "fptrunc",
}
"""The instruction that converts from the first type to the second one."""


def _array(memory: Memory) -> str:
    return f"[{memory.size} x {_STORED[memory.element]}]"


def _number(value: float, type: str) -> str:
    """Return a constant. LLVM writes an `f16` as its bits, and other floats as the bits of
    doubles."""
    if type not in tree.FLOATS:
        return str(int(value))
    if type == "f16":
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    [rounded] = struct.unpack("<f", struct.pack("<f", value))
    [bits] = struct.unpack("<Q", struct.pack("<d", rounded))
    return f"0x{bits:016X}"
