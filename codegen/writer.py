"""The text of one LLVM function while it is being written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from tessella.codegen.addresses import Indices, Scope
from tessella.codegen.lltypes import I64, LLType, LLValue, constant, vector
from tessella.support.errors import InternalError, InvalidModelError
from tessella.targets import Target

Handler = Callable[["Writer", Operation], None]


@dataclass
class Writer:
    """The text of one LLVM function: its lines, the LLVM value of each SSA value, and the helpers
    and metadata that its module must contain.

    A value has the type it was written with, which may differ from the op's declared type: xDSL's
    `arith.cmpf` on vectors declares a scalar i1.
    """

    target: Target
    handlers: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    lines: list[str] = field(default_factory=list[str])
    values: dict[SSAValue, LLValue] = field(default_factory=dict[SSAValue, LLValue])
    buffers: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The pointer of each memref."""

    helpers: dict[str, str] = field(default_factory=dict[str, str])
    """Functions that the module must define or declare, by name."""

    indices: Indices = field(default_factory=Indices)
    scopes: list[Scope] = field(default_factory=list[Scope])
    """The enclosing blocks, outermost first."""

    divided: frozenset[str] = frozenset()
    """Names of the kernels and segments that threads divide; one thread runs each of the others
    alone."""

    stamps: Mapping[Operation, int] | None = None
    """The numbers of the events before ops; None if the code writes no events."""

    symbols: Sequence[str] = ()
    """The names of the module's symbols, in the order of their values."""

    sizes: dict[Hashable, LLValue] = field(default_factory=dict[Hashable, LLValue])
    """Values computed from symbols."""

    metadata: list[str] = field(default_factory=list[str])
    """Loop metadata for the end of the module."""

    block: str = "entry"
    """The label of the current block, which phis need."""

    count: int = 0

    # ** values **

    def get(self, op: Operation, index: int) -> LLValue:
        """Return the LLVM value of an operand."""
        try:
            return self.values[op.operands[index]]
        except KeyError:
            raise InternalError(
                f"operand {index} of {op.name} has no value", where=str(op)
            ) from None

    def set(self, op: Operation, value: LLValue) -> None:
        """Record the LLVM value of the op's only result."""
        self.values[op.results[0]] = value

    def buffer(self, op: Operation, index: int) -> str:
        """Return the pointer of a memref operand."""
        try:
            return self.buffers[op.operands[index]]
        except KeyError:
            raise InternalError(
                f"operand {index} of {op.name} is not a buffer", where=str(op)
            ) from None

    # ** instructions **

    def name(self) -> str:
        """Return an unused register name."""
        self.count += 1
        return f"%v{self.count}"

    def label(self, hint: str) -> str:
        """Return an unused label."""
        self.count += 1
        return f"{hint}{self.count}"

    def push(self, lltype: LLType, text: str) -> LLValue:
        """Write an instruction and return its result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return LLValue(lltype, name)

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def binary(self, opcode: str, a: LLValue, b: LLValue) -> LLValue:
        """Write `opcode type a, b` and return its result, of the operands' type."""
        return self.push(a.type, f"{opcode} {a.type.text} {a.text}, {b.text}")

    def compare(self, opcode: str, a: LLValue, b: LLValue) -> LLValue:
        """Write the comparison `opcode type a, b` (`fcmp ogt`, `icmp eq`) and return its result, a
        mask."""
        return self.push(a.type.mask, f"{opcode} {a.type.text} {a.text}, {b.text}")

    def select(self, condition: LLValue, a: LLValue, b: LLValue) -> LLValue:
        """Write a select: ``a`` where the condition is true, else ``b``."""
        return self.push(a.type, f"select {condition.typed}, {a.typed}, {b.typed}")

    def cast(self, opcode: str, value: LLValue, to: LLType) -> LLValue:
        """Write `opcode value to type` and return its result."""
        return self.push(to, f"{opcode} {value.typed} to {to.text}")

    def call(self, to: LLType, callee: str, *operands: LLValue, flags: str = "") -> LLValue:
        """Write a call of a function or intrinsic, whose name is given without `@`."""
        listed = ", ".join(v.typed for v in operands)
        return self.push(to, f"call {flags}{to.text} @{callee}({listed})")

    def intrinsic(self, name: str, *operands: LLValue) -> LLValue:
        """Write a call of `llvm.NAME`, overloaded on the first operand's type, which is also the
        result's type."""
        lltype = operands[0].type
        return self.call(lltype, f"llvm.{name}.{lltype.mangled}", *operands)

    def broadcast(self, value: LLValue, lanes: int) -> LLValue:
        """Return a vector of ``lanes`` lanes with a scalar in each lane."""
        to = vector(value.type.element, lanes)
        if value.is_constant:
            return LLValue(to, f"splat ({value.typed})")
        zero = constant(I64, 0).typed
        one = self.push(to, f"insertelement {to.text} poison, {value.typed}, {zero}")
        return self.push(
            to,
            f"shufflevector {one.typed}, {to.text} poison, <{lanes} x i32> zeroinitializer",
        )

    def gep(self, pointer: str, element: str, index: LLValue, flags: str = "inbounds ") -> str:
        """Write a `getelementptr` and return its register: the address of the element at an
        index."""
        name = self.name()
        self.lines.append(
            f"  {name} = getelementptr {flags}{element}, ptr {pointer}, {index.typed}"
        )
        return name

    def table(self, values: Sequence[str]) -> str:
        """Write an array of 8-byte values, each given with its type, on the stack. Returns its
        address."""
        table = self.name()
        # at the function's entry, so that it is allocated once
        self.lines.insert(0, f"  {table} = alloca [{max(1, len(values))} x i64], align 8")
        for index, value in enumerate(values):
            slot = self.gep(table, "i64", constant(I64, index))
            self.line(f"store {value}, ptr {slot}, align 8")
        return table

    def load_pointer(self, buffer: SSAValue, table: str, slot: int) -> None:
        """Load the pointer of a buffer from a table of pointers."""
        place = self.gep(table, "ptr", constant(I64, slot))
        self.buffers[buffer] = pointer = self.name()
        self.line(f"{pointer} = load ptr, ptr {place}, align 8")

    # ** ops **

    def walk(self, block: Block) -> None:
        """Write every op of a block. Raises InvalidModelError for an op without a handler."""
        self.run(block.ops)

    def run(self, ops: Iterable[Operation]) -> None:
        """Write these ops. Raises InvalidModelError for an op without a handler."""
        handlers = self.handlers
        for op in ops:
            handler = handlers.get(op.name)
            if handler is None:
                raise InvalidModelError(
                    f"code generation has no entry for {op.name}",
                    where=str(op),
                    hint="docs/stages/loops.md lists the ops of the loops stage",
                )
            handler(self, op)
