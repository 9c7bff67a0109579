"""The family of x86-64 CPUs, at the levels v2, v3 and v4 of the psABI."""

from __future__ import annotations

from collections.abc import Mapping

from tessella.targets.family import Family, Jump, Level, distance
from tessella.targets.target import KIB, NarrowingIntrinsic, Target

_TRIPLES = {
    "Linux": "x86_64-unknown-linux-gnu",
    "Darwin": "x86_64-apple-darwin-elf",
    "Windows": "x86_64-pc-windows-msvc-elf",
}
V2_FLAGS = frozenset("cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2".split())
V3_FLAGS = V2_FLAGS | frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split())
V4_FLAGS = V3_FLAGS | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
_FEATURES = {
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni",
    "avx_vnni_int8": "avxvnniint8",
}

AVX512 = Target(
    name="avx512",
    arch="x86",
    triple=_TRIPLES["Linux"],
    cpu="x86-64-v4",
    features=(),
    vector_bits=512,
    vector_registers=32,
    mask_registers=8,
    fused_multiply_add=True,
    fma_ports=2,
    fma_latency=4,
    load_ports=2,
    store_ports=1,
    shuffle_ports=1,
    converts_half=True,
    converts_long=True,
    loads_pairs=False,
    table_lanes=16,
    takes_lanes=("llvm.x86.avx512.permvar.sf.{bits}", "llvm.x86.avx512.vpermi2var.ps.{bits}"),
    scales_by_powers="llvm.x86.avx512.mask.scalef.p{type}.{bits}",
    narrows_bf16=NarrowingIntrinsic(
        "llvm.x86.avx512bf16.cvtneps2bf16.{bits}", "avx512bf16", (256, 512)
    ),
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=48 * KIB,
    l2=1024 * KIB,
    l3=16 * KIB * KIB,
    cache_line=64,
    l1_bandwidth=128.0,
    l2_bandwidth=52.0,
    l3_bandwidth=15.0,
    memory_bandwidth=5.0,
    ghz=4.0,
)
AVX2 = Target(
    name="avx2",
    arch="x86",
    triple=_TRIPLES["Linux"],
    cpu="x86-64-v3",
    features=(),
    vector_bits=256,
    vector_registers=16,
    mask_registers=0,
    fused_multiply_add=True,
    fma_ports=2,
    fma_latency=4,
    load_ports=2,
    store_ports=1,
    shuffle_ports=1,
    converts_half=True,
    converts_long=False,
    loads_pairs=False,
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
    l1=32 * KIB,
    l2=512 * KIB,
    l3=16 * KIB * KIB,
    cache_line=64,
    l1_bandwidth=64.0,
    l2_bandwidth=25.0,
    l3_bandwidth=14.0,
    memory_bandwidth=5.0,
    ghz=4.0,
)
SSE = Target(
    name="sse",
    arch="x86",
    triple=_TRIPLES["Linux"],
    cpu="x86-64-v2",
    features=(),
    vector_bits=128,
    vector_registers=16,
    mask_registers=0,
    fused_multiply_add=False,
    fma_ports=1,
    fma_latency=8,
    load_ports=2,
    store_ports=1,
    shuffle_ports=1,
    converts_half=False,
    converts_long=False,
    loads_pairs=False,
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
    l1=32 * KIB,
    l2=256 * KIB,
    l3=8 * KIB * KIB,
    cache_line=64,
    l1_bandwidth=32.0,
    l2_bandwidth=25.0,
    l3_bandwidth=14.0,
    memory_bandwidth=6.7,
    ghz=3.0,
)

RATES: Mapping[str, tuple[tuple[str, float], ...]] = {"GenuineIntel": (("vdpbf16ps", 0.25),)}
"""Throughputs of dot products that differ from the table of instructions, by maker.

Intel's cores leave bf16 to AMX, which code generation does not use.
"""

FAMILY = Family(
    name="x86",
    machines=("x86_64", "amd64"),
    triples=_TRIPLES,
    data_layout="e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
    levels=(
        Level(AVX512, V4_FLAGS, frozenset(_FEATURES.values())),
        Level(AVX2, V3_FLAGS, frozenset(("avxvnni", "avxvnniint8"))),
        Level(SSE, V2_FLAGS, frozenset()),
    ),
    features=_FEATURES,
    steady=frozenset(("constant_tsc", "nonstop_tsc")),
    counter="@llvm.readcyclecounter()",  # rdtsc
    pause="@llvm.x86.sse2.pause()",
    futex=202,
    reduces_minmax=False,
    saturates=False,
    flushes_code=False,
    elf=62,
    code_alignment=64,
    # System V ABI, AMD64 Supplement, 4.4: PC32, PLT32
    patches={2: distance, 4: distance},
    indirect_jump=bytes.fromhex("ff2502000000 0f0b"),  # jmp *2(%rip); ud2
    jump=Jump(bytes.fromhex("e900000000"), 1, 4, -4),  # jmp rel32, with PLT32
)
