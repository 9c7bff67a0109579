"""Instructions that add several products of narrow numbers to each lane of an accumulator.

An instruction computes ``acc[m, n] += sum(a[m, k] * b[n, k])`` over a tile of ``m`` rows, ``n``
columns and ``k`` values. Most tiles have one row: one operand has a group of ``k`` values that all
lanes share, and the other operand has a group for each lane. An accumulator of several rows stores
the columns of each row contiguously. A multiply-add has ``k = 1``: the table needs it only if it
widens its operands.

Packing, schedules, costs and code follow from the table's row for an instruction. A further
instruction is a row and a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from tessella.targets.target import Target

Elements = tuple[str, str]
"""The element types of the first and of the second operand of a product."""


class Form(NamedTuple):
    """The LLVM intrinsic and the feature by which an instruction is available for vectors of one
    length."""

    callee: str
    """The name of LLVM's intrinsic."""
    feature: str = ""
    """LLVM's name of the required feature; empty if all targets with such vectors have the
    instruction."""


@dataclass(frozen=True)
class Instruction:
    """An instruction, or a short sequence, that multiplies and adds groups of narrow numbers."""

    name: str
    arch: str
    operands: tuple[Elements, ...]
    """The pairs of elements that the instruction multiplies, in LLVM's operand order."""
    accumulates: str
    """The element of the instruction's accumulators."""
    k: int
    """The number of products that the instruction adds to each lane."""
    forms: Mapping[int, Form]
    """The intrinsics, keyed by vector width in bits."""
    m: int = 1
    """The number of rows of the instruction's tile, a power of two. Several rows belong to the
    first operand."""
    takes: str = ""
    """The element to which operands are widened when they are packed or read; empty if they are not
    widened."""
    sums: bool = False
    """True if the intrinsic returns the sum of the products, which a further instruction
    accumulates."""
    from_halves: bool = False
    """True if the intrinsic takes vectors of twice the length, and reads their first half."""
    rate: float = 1.0
    """Throughput relative to a float multiply-add on most CPUs."""

    def __hash__(self) -> int:
        return hash(self.name)

    def runs_on(self, target: Target) -> bool:
        """Return whether a target has the instruction for its vectors."""
        form = self.forms.get(target.vector_bits)
        if form is None or self.arch != target.arch:
            return False
        return form.feature in ("", *target.features)

    def rate_on(self, target: Target) -> float:
        """Return the instruction's throughput on a target, relative to a float multiply-add."""
        return dict(target.rates).get(self.name, self.rate)

    def columns(self, lanes: int) -> int:
        """Return the number of columns of the instruction's tile, for accumulators with this many
        lanes."""
        return lanes // self.m

    def taken(self, lanes: int) -> int:
        """Return the number of values in each operand vector, for accumulators with this many
        lanes."""
        return self.k * self.columns(lanes) * (2 if self.from_halves else 1)

    def widens(self, element: str) -> bool:
        """Return whether the values of an element are widened before the instruction multiplies
        them."""
        return self.takes not in ("", element)

    def swaps(self, a: str, b: str) -> bool | None:
        """Return whether the instruction takes the operands of a product ``a * b`` in reverse
        order; None if it cannot multiply these elements."""
        if (a, b) in self.operands:
            return False
        return True if (b, a) in self.operands else None


_INTEGERS = ("u8", "i8", "i16")

_ROWS = (
    Instruction(
        name="vpdpbusd",
        arch="x86",
        operands=(("u8", "i8"),),
        accumulates="i32",
        k=4,
        forms={
            512: Form("llvm.x86.avx512.vpdpbusd.512", "avx512vnni"),
            256: Form("llvm.x86.avx512.vpdpbusd.256", "avxvnni"),
        },
    ),
    Instruction(
        name="vpdpbssd",
        arch="x86",
        operands=(("i8", "i8"),),
        accumulates="i32",
        k=4,
        forms={256: Form("llvm.x86.avx2.vpdpbssd.256", "avxvnniint8")},
    ),
    Instruction(
        name="vpdpbuud",
        arch="x86",
        operands=(("u8", "u8"),),
        accumulates="i32",
        k=4,
        forms={256: Form("llvm.x86.avx2.vpdpbuud.256", "avxvnniint8")},
    ),
    Instruction(
        name="vdpbf16ps",
        arch="x86",
        operands=(("bf16", "bf16"),),
        accumulates="f32",
        k=2,
        forms={512: Form("llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16")},
    ),
    Instruction(
        name="vpdpwssd",
        arch="x86",
        operands=tuple(product(_INTEGERS, _INTEGERS)),
        accumulates="i32",
        k=2,
        forms={
            512: Form("llvm.x86.avx512.vpdpwssd.512", "avx512vnni"),
            256: Form("llvm.x86.avx512.vpdpwssd.256", "avxvnni"),
        },
        takes="i16",
    ),
    Instruction(
        name="vpmaddwd",
        arch="x86",
        operands=tuple(product(_INTEGERS, _INTEGERS)),
        accumulates="i32",
        k=2,
        forms={
            512: Form("llvm.x86.avx512.pmaddw.d.512"),
            256: Form("llvm.x86.avx2.pmadd.wd"),
            128: Form("llvm.x86.sse2.pmadd.wd"),
        },
        takes="i16",
        sums=True,
        rate=0.5,
    ),
    *(
        Instruction(
            name=name,
            arch="arm",
            operands=(pair,),
            accumulates="i32",
            k=8,
            forms={128: Form(f"llvm.aarch64.neon.{name}.v4i32.v16i8", "i8mm")},
            m=2,
        )
        for name, pair in (
            ("smmla", ("i8", "i8")),
            ("ummla", ("u8", "u8")),
            ("usmmla", ("u8", "i8")),
        )
    ),
    Instruction(
        name="bfmmla",
        arch="arm",
        operands=(("bf16", "bf16"),),
        accumulates="f32",
        k=4,
        forms={128: Form("llvm.aarch64.neon.bfmmla", "bf16")},
        m=2,
    ),
    Instruction(
        name="usdot",
        arch="arm",
        operands=(("u8", "i8"),),
        accumulates="i32",
        k=4,
        forms={128: Form("llvm.aarch64.neon.usdot.v4i32.v16i8", "i8mm")},
    ),
    Instruction(
        name="sdot",
        arch="arm",
        operands=(("i8", "i8"),),
        accumulates="i32",
        k=4,
        forms={128: Form("llvm.aarch64.neon.sdot.v4i32.v16i8", "dotprod")},
    ),
    Instruction(
        name="udot",
        arch="arm",
        operands=(("u8", "u8"),),
        accumulates="i32",
        k=4,
        forms={128: Form("llvm.aarch64.neon.udot.v4i32.v16i8", "dotprod")},
    ),
    Instruction(
        name="bfdot",
        arch="arm",
        operands=(("bf16", "bf16"),),
        accumulates="f32",
        k=2,
        forms={128: Form("llvm.aarch64.neon.bfdot.v4f32.v8bf16", "bf16")},
    ),
    Instruction(
        name="fmlal",
        arch="arm",
        operands=(("f16", "f16"),),
        accumulates="f32",
        k=1,
        forms={128: Form("llvm.aarch64.neon.fmlal.v4f32.v8f16", "fp16fml")},
        from_halves=True,
    ),
)

INSTRUCTIONS = {row.name: row for row in _ROWS}
"""The rows by name, fastest first."""


def pairs_of(elements: Sequence[str], accumulated: str, target: Target) -> list[Elements]:
    """Return the pairs of element types that a target multiplies fastest, among all pairs of
    ``elements``, in operand order.

    If no instruction multiplies any of these pairs, all are returned.
    """
    pairs = [(a, b) for a in elements for b in elements]
    speeds = [
        max(
            (row.k * row.rate_on(target) for row in _in_order(*pair, accumulated, target)),
            default=0.0,
        )
        for pair in pairs
    ]
    best = max(speeds)
    return [pair for pair, speed in zip(pairs, speeds, strict=True) if speed == best]


def _in_order(a: str, b: str, accumulated: str, target: Target) -> Iterator[Instruction]:
    """Yield the instructions of a target that multiply ``a`` and ``b`` in this order and accumulate
    in ``accumulated``."""
    return (row for row in of_product(a, b, accumulated, target) if not row.swaps(a, b))


def of_product(a: str, b: str, accumulated: str, target: Target) -> Iterator[Instruction]:
    """Yield the instructions of a target that multiply ``a`` and ``b``, in either order, and
    accumulate in ``accumulated``."""
    for row in INSTRUCTIONS.values():
        if row.accumulates == accumulated and row.swaps(a, b) is not None and row.runs_on(target):
            yield row
