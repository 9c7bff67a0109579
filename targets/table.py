"""The known targets, with the figures of a typical recent core.

`native()` replaces the cache sizes by those of this machine, and other figures by measured ones.

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
  thread: 25 us, as in a virtual machine. Both bound the work that is worth dividing between
  threads;
- pages: 64 entries in the first-level TLB, and 7 cycles for a hit in the second-level TLB, from
  Intel's manual; 1x1 convolutions of images in rows feel 6 of them;
- bandwidth of level 1: a vector from each load port in every cycle;
- of levels 2 and 3 on x86: the sustained bandwidths of Skylake Server for avx512, and of Broadwell
  for avx2 and sse, as Intel's optimization manual lists them under *Skylake Server
  Microarchitecture Cache Recommendations*;
- of level 2 for neon: 19 bytes per cycle, as chipsandcheese.com measured on an Ampere Altra
  (*Deep Diving Neoverse N1*), whose level 3, across a slower mesh, is taken for half of that;
- of memory: a guess, 20 GB/s. Machines differ most in this: measure it.
"""

from __future__ import annotations

from dataclasses import replace

from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean
from tessella.targets import arm, x86
from tessella.targets.family import Family
from tessella.targets.target import Target

FAMILIES = {family.name: family for family in (x86.FAMILY, arm.FAMILY)}
"""The CPU families by name."""

LEVELS = {level.target.name: level for family in FAMILIES.values() for level in family.levels}
"""The levels of all families by the target's name: each target, with the machines that run its
code."""

TARGETS = {name: level.target for name, level in LEVELS.items()}
"""The targets by name, best first within an architecture."""

ALIASES = {alias: name for f in FAMILIES.values() for alias, name in f.aliases.items()}
"""The name of the target for each alias."""


def family_of(target: Target) -> Family:
    """Return the CPU family, such as `x86`, that a target belongs to."""
    return FAMILIES[target.arch]


def names() -> tuple[str, ...]:
    """Return every name that `get` accepts, aliases included."""
    return (*TARGETS, *ALIASES)


def get(name: str) -> Target:
    """Return the target with a name, such as `avx512`, or `avx512+avx512vnni` with an optional
    feature.

    Raises OptionError, which lists the known names.
    """
    base, *features = name.split("+")
    level = LEVELS.get(ALIASES.get(base, base))
    if level is None:
        raise OptionError(
            f"unknown target {base!r}",
            expected=f"one of {', '.join(names())}",
            found=repr(name),
            hint=did_you_mean(base.lower(), names()),
        )
    if unknown := sorted({*features} - level.extras):
        raise OptionError(
            f"the target {base!r} has no feature {unknown[0]!r}",
            expected=f"some of {', '.join(sorted(level.extras)) or 'no features'}, each after a +",
            found=repr(name),
            hint=did_you_mean(unknown[0].lower(), sorted(level.extras)),
        )
    extras = (f for f in family_of(level.target).features.values() if f in features)
    return replace(level.target, features=(*level.target.features, *extras))
