"""The known targets, with the figures of a typical recent core.

`native()` puts in its own caches, and what was measured on it.

Where the figures are from:

- ports and latencies: Intel's and AMD's optimization manuals (Golden Cove and Zen 5 for avx512,
  Skylake and Zen 3 for avx2, Sandy Bridge for sse, where a multiply and an add are two
  instructions), Arm's optimization guide of Neoverse N1 for neon;
- shuffles of two vectors: one port, as Intel's cores have;
- instructions of a loop: a guess that is safe for the cache of decoded instructions of all cores;
  without a bound, 4 in 10 choices of tiles are unrolled further;
- cycles to fill the pipeline: a guess; without them 13 choices of tiles
  change, 4% in the mean and 15% at most;
- cycles of a barrier: some messages between two cores, of 60 to 100 ns each; cycles to wake a
  thread: 25 us, as in a virtual machine; they bound what is worth dividing between threads;
- pages: 64 entries in the first buffer of translations, and 7 cycles to the second one, from the
  manual of Intel; 1x1 convolutions of images in rows feel 6 of them;
- bandwidth of level 1: a vector from each load port in every cycle;
- of levels 2 and 3 on x86: the sustained bandwidths of Skylake Server for avx512, and of Broadwell
  for avx2 and sse, as Intel's optimization manual lists them under *Skylake Server
  Microarchitecture Cache Recommendations*;
- of level 2 for neon: 19 bytes per cycle, as chipsandcheese.com measured on an Ampere Altra
  (*Deep Diving Neoverse N1*), whose level 3, across a slower mesh, is taken for half of that;
- of memory: a guess, 20 GB/s. Machines differ most in this: measure it.
"""

from __future__ import annotations

import difflib

from tessella.support.errors import OptionError
from tessella.targets.target import Target

_KIB = 1024
_X86_LINUX = "x86_64-unknown-linux-gnu"

AVX512 = Target(
    name="avx512",
    arch="x86",
    triple=_X86_LINUX,
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
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * _KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=48 * _KIB,
    l2=1024 * _KIB,
    l3=16 * _KIB * _KIB,
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
    triple=_X86_LINUX,
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
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * _KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=32 * _KIB,
    l2=512 * _KIB,
    l3=16 * _KIB * _KIB,
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
    triple=_X86_LINUX,
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
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * _KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=32 * _KIB,
    l2=256 * _KIB,
    l3=8 * _KIB * _KIB,
    cache_line=64,
    l1_bandwidth=32.0,
    l2_bandwidth=25.0,
    l3_bandwidth=14.0,
    memory_bandwidth=6.7,
    ghz=3.0,
)
NEON = Target(
    name="neon",
    arch="arm",
    triple="aarch64-unknown-linux-gnu",
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
    loop_ops=160,
    refill_cycles=12.0,
    barrier_cycles=1500,
    wake_cycles=100_000,
    page=4 * _KIB,
    tlb_entries=64,
    tlb_miss_cycles=7.0,
    l1=64 * _KIB,
    l2=1024 * _KIB,
    l3=16 * _KIB * _KIB,
    cache_line=64,
    l1_bandwidth=32.0,
    l2_bandwidth=19.0,
    l3_bandwidth=9.5,
    memory_bandwidth=7.7,
    ghz=2.6,
)

TARGETS = {target.name: target for target in (AVX512, AVX2, SSE, NEON)}
"""By name, best first within an architecture."""

ALIASES = {"aarch64": "neon", "arm64": "neon"}


def names() -> tuple[str, ...]:
    """Every name that `get` knows, aliases included."""
    return (*TARGETS, *ALIASES)


def get(name: str) -> Target:
    """The target of that name. Raises OptionError, which lists the known names."""
    target = TARGETS.get(ALIASES.get(name, name))
    if target is not None:
        return target
    close = difflib.get_close_matches(name.lower(), names(), n=1)
    raise OptionError(
        f"there is no target {name!r}",
        expected=f"one of {', '.join(names())}",
        found=repr(name),
        hint=f"did you mean {close[0]!r}?" if close else None,
    )
