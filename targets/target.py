"""The description of a machine for kernels, the tile model and code generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

KIB = 1024
"""The bytes of a kibibyte."""


class NarrowingIntrinsic(NamedTuple):
    """An intrinsic of LLVM that converts f32 to narrower elements."""

    name: str
    """The name of the intrinsic. `{bits}` stands for the width of the vector that it takes, in
    bits."""
    feature: str
    """LLVM's name of the feature that a target needs."""
    bits: tuple[int, ...]
    """The widths, in bits, of the vectors that the intrinsic narrows as a whole."""


@dataclass(frozen=True)
class Target:
    """A machine to generate code for. Sizes are in bytes unless a name says bits."""

    name: str
    """The name that `get` accepts: `avx512`, `avx2`, `sse`, `neon`."""

    arch: str
    """The target part of a place: `x86` or `arm`."""

    triple: str
    """LLVM's name of the machine and the system. Objects are ELF on all systems."""
    cpu: str
    """LLVM's name of the instruction set level, not of a product: `x86-64-v4`."""

    features: tuple[str, ...]
    """LLVM's names of features beyond ``cpu``, such as `avx512vnni`."""

    vector_bits: int
    vector_registers: int
    mask_registers: int
    """Dedicated mask registers; 0 if masks live in vector registers."""

    fused_multiply_add: bool
    fma_ports: int
    """Vector multiply-adds that can start in a cycle."""

    fma_latency: int
    """Cycles from a multiply-add's start to its result."""

    load_ports: int
    """Vector loads that can start in a cycle."""

    store_ports: int
    """Vector stores that can start in a cycle."""

    shuffle_ports: int
    """Two-operand lane shuffles that can start in a cycle."""

    converts_half: bool
    """True if instructions convert between f16 and f32."""

    converts_long: bool
    """True if instructions convert float vectors to i64."""

    loads_pairs: bool
    """True if one instruction loads two adjacent elements into two registers."""

    table_lanes: int
    """The number of f32 table entries that one vector holds, for the instruction that selects
    entries by index from one vector or two; 0 if the vector holds too few."""

    takes_lanes: tuple[str, ...]
    """LLVM's intrinsics that select lanes of f32 by index from one vector, and from two, as far as
    there are any. `{bits}` stands for the width of the vector. The operands are the vector, the
    lane numbers, of which only the lowest bits count, and the second vector, if any."""

    scales_by_powers: str
    """LLVM's intrinsic that multiplies by powers of two, with results down to 0 and up to infinity;
    empty if there is none. `{type}` stands for `s` or `d`, and `{bits}` for the width of the
    vector. The operands are the numbers, the exponents, the values for masked lanes, the mask,
    and for 512 bits the rounding mode."""

    narrows_bf16: NarrowingIntrinsic | None
    """The intrinsic that narrows f32 to bf16, and makes zeros of denormal numbers."""

    loop_ops: int
    """The most instructions of a loop that fits into the cache of decoded instructions."""

    refill_cycles: float
    """Cycles to refill the pipeline after a mispredicted branch."""

    barrier_cycles: int
    """Cycles until threads on two cores know that both are at a barrier."""

    wake_cycles: int
    """Cycles until a parked thread runs."""

    page: int
    """Bytes of a page of memory."""

    tlb_entries: int
    """Entries of the first-level data TLB."""

    tlb_miss_cycles: float
    """Cycles of a hit in the second-level TLB."""

    l1: int
    l2: int
    l3: int
    """The bytes of the level 1 data cache, the level 2 cache and the level 3 cache that one core
    can use."""

    cache_line: int
    l1_bandwidth: float
    l2_bandwidth: float
    l3_bandwidth: float
    memory_bandwidth: float
    """The bytes per cycle that one core sustains in sequential reads, from each cache level and
    from memory."""

    ghz: float
    """Clock under vector load, for cost estimates; not a guarantee."""

    rates: tuple[tuple[str, float], ...] = ()
    """Throughputs of `targets.instructions` relative to a multiply-add, by name, where the CPU
    differs from the table."""

    def converts(self, element: str) -> bool:
        """Return whether instructions convert between f32 and an element that is for storage
        only."""
        if element == "f16":
            return self.converts_half
        narrows = self.narrows_bf16
        return element == "bf16" and narrows is not None and narrows.feature in self.features

    def bandwidth(self, size: int) -> float:
        """Return the bytes per cycle at which one core reads ``size`` bytes sequentially.

        The rate is that of the first memory level with at least twice this size, as other data uses
        the level too.
        """
        return self.bandwidth_of_all(2 * size)

    def bandwidth_of_all(self, size: int) -> float:
        """Return the bytes per cycle at which one core reads data of ``size`` bytes again and
        again.

        The rate is that of the first memory level that holds the data as a whole.
        """
        levels = (
            (self.l1, self.l1_bandwidth),
            (self.l2, self.l2_bandwidth),
            (self.l3, self.l3_bandwidth),
        )
        found = (rate for capacity, rate in levels if size <= capacity)
        return next(found, self.memory_bandwidth)

    def is_far(self, size: int) -> bool:
        """Return whether data of this size does not stay in the second-level cache until it is used
        again."""
        return 2 * size > self.l2

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector register."""
        return self.vector_bits // 8

    def lanes(self, element_bits: int) -> int:
        """Return the number of elements of this width, in bits, in a vector register; at least
        1."""
        return max(1, self.vector_bits // max(8, element_bits))

    @property
    def feature_string(self) -> str:
        """``features`` in LLVM's syntax: `+avx512vnni,+avx512bf16`."""
        return ",".join(f"+{feature}" for feature in self.features)
