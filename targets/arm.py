"""The family of 64-bit Arm CPUs, with the vectors that all of them have."""

from __future__ import annotations

from tessella.targets.family import Family, Jump, Level, Patch, distance, fits
from tessella.targets.target import KIB, Target

_TRIPLES = {"Linux": "aarch64-unknown-linux-gnu", "Darwin": "arm64-apple-darwin-elf"}
_FEATURES = {"asimddp": "dotprod", "i8mm": "i8mm", "bf16": "bf16", "asimdfhm": "fp16fml"}

NEON = Target(
    name="neon",
    arch="arm",
    triple=_TRIPLES["Linux"],
    cpu="generic",
    features=("neon",),
    vector_bits=128,
    vector_registers=32,
    mask_registers=0,
    fused_multiply_add=True,
    fma_ports=2,
    fma_latency=4,
    load_ports=2,
    store_ports=1,
    shuffle_ports=1,
    converts_half=True,
    converts_long=True,
    loads_pairs=True,
    table_lanes=0,
    takes_lanes=(),
    scales_by_powers="",
    narrows_bf16=None,
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=64 * KIB,
    l2=1024 * KIB,
    l3=16 * KIB * KIB,
    cache_line=64,
    l1_bandwidth=32.0,
    l2_bandwidth=19.0,
    l3_bandwidth=9.5,
    memory_bandwidth=7.7,
    ghz=2.6,
)


def _branch(word: int, at: int, target: int) -> int:
    return word & ~0x3FF_FFFF | fits(target - at, 28) >> 2 & 0x3FF_FFFF


def _pages(word: int, at: int, target: int) -> int:
    pages = fits((target >> 12) - (at >> 12), 21)
    return word | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _low(shift: int) -> Patch:
    """Return the function that inserts an offset within a page, in units of ``1 << shift`` bytes,
    into an instruction."""
    return lambda word, at, target: word | (target & 0xFFF) >> shift << 10


FAMILY = Family(
    name="arm",
    machines=("aarch64", "arm64"),
    triples=_TRIPLES,
    data_layout="e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-"
    "S128-Fn32",
    aliases={"aarch64": "neon", "arm64": "neon"},
    levels=(Level(NEON, frozenset(("asimd",)), frozenset(_FEATURES.values())),),
    features=_FEATURES,
    rates={},
    steady=frozenset(),
    # the generic timer's register, which user code may read
    counter='@llvm.read_volatile_register.i64(metadata !{!"cntvct_el0"})',
    pause="@llvm.aarch64.isb(i32 15)",
    futex=98,
    reduces_minmax=True,
    saturates=True,
    flushes_code=True,
    elf=183,
    code_alignment=4096,  # code addresses memory by page and offset
    # ELF for the Arm 64-bit Architecture, 5.7: PREL32, ADR_PREL_PG_HI21, ADD_ABS_LO12_NC,
    # LDST*_ABS_LO12_NC, JUMP26, CALL26
    patches={
        261: distance,
        275: _pages,
        277: _low(0),
        278: _low(0),
        284: _low(1),
        285: _low(2),
        286: _low(3),
        299: _low(4),
        282: _branch,
        283: _branch,
    },
    indirect_jump=bytes.fromhex("50000058 00021fd6"),  # ldr x16, .+8; br x16
    jump=Jump(bytes.fromhex("00000014"), 0, 282, 0),  # b, with JUMP26
)
