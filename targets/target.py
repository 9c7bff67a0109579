"""The description of a machine for kernels, the tile model and code generation."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
"""Bytes."""


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
    """Whether instructions convert between f16 and f32."""

    converts_long: bool
    """Whether instructions convert float vectors to i64."""

    loads_pairs: bool
    """Whether one instruction loads two adjacent elements into two registers."""

    table_lanes: int
    """f32 table entries that one instruction selects by index, from one vector or two; 0 if it is
    too few."""

    scales_by_powers: bool
    """Whether an instruction scales by powers of two, including to 0 and infinity."""

    loop_ops: int
    """Instructions of a loop that fits into the cache of decoded instructions."""

    refill_cycles: float
    """Cycles to refill the pipeline after a mispredicted branch."""

    barrier_cycles: int
    """Cycles until threads on two cores know that both are at a barrier."""

    wake_cycles: int
    """Cycles until a thread that sleeps runs."""

    page: int
    """Bytes of a page of memory."""

    tlb_entries: int
    """Pages whose translations the first-level buffer for data holds."""

    tlb_miss_cycles: float
    """Cycles until a translation comes from the second-level buffer."""

    l1: int
    l2: int
    l3: int
    """Bytes of level 1 data, level 2 and level 3 cache that one core can use."""

    cache_line: int
    l1_bandwidth: float
    l2_bandwidth: float
    l3_bandwidth: float
    memory_bandwidth: float
    """Bytes per cycle that one core sustains when it reads, one after the other, what this level
    holds and no level before it."""

    ghz: float
    """Clock under vector load, for cost estimates; not a promise."""

    rates: tuple[tuple[str, float], ...] = ()
    """How many of an instruction of `targets.instructions` start in the time of a multiply-add, by
    its name, where the CPU differs from the table."""

    def converts(self, element: str) -> bool:
        """Whether instructions convert between an element that is only stored and f32: those that
        narrow to bf16 make zeros of denormal numbers."""
        return self.converts_half if element == "f16" else "avx512bf16" in self.features

    def bandwidth(self, size: int) -> float:
        """Bytes per cycle at which one core reads so many bytes, one after the other: those of the
        first level of memory of which they are at most half, as others use it too."""
        return self.bandwidth_of_all(2 * size)

    def bandwidth_of_all(self, size: int) -> float:
        """Bytes per cycle at which one core reads so many bytes again and again: those of the first
        level of memory that holds them."""
        levels = (
            (self.l1, self.l1_bandwidth),
            (self.l2, self.l2_bandwidth),
            (self.l3, self.l3_bandwidth),
        )
        found = (rate for capacity, rate in levels if size <= capacity)
        return next(found, self.memory_bandwidth)

    def is_far(self, size: int) -> bool:
        """Whether so many bytes are used up by the time that they are needed again: they come from
        beyond the second level of cache."""
        return 2 * size > self.l2

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register."""
        return self.vector_bits // 8

    def lanes(self, element_bits: int) -> int:
        """Elements of ``element_bits`` bits in one vector register; at least 1."""
        return max(1, self.vector_bits // max(8, element_bits))

    @property
    def feature_string(self) -> str:
        """``features`` as LLVM writes them: `+avx512vnni,+avx512bf16`."""
        return ",".join(f"+{feature}" for feature in self.features)
