"""This machine as a target: from /proc and /sys on Linux, and a safe guess elsewhere."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tessella.support.errors import OptionError
from tessella.targets import measured
from tessella.targets.family import Family
from tessella.targets.table import FAMILIES, LEVELS, TARGETS, family_of, get
from tessella.targets.target import Target

KNOB = "TESSELLA_TARGET"
"""The environment variable that names the native target, overriding detection."""

_IDENTITY = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)
"""The lines of /proc/cpuinfo that identify the processor, on x86 and on Arm."""

_CACHE_ROOT = Path("/sys/devices/system/cpu/cpu0/cache")
_CACHE_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def native() -> Target:
    """Return the target of this machine, or the target that TESSELLA_TARGET names.

    Raises OptionError if the named target is unknown or has instructions that this machine lacks.
    """
    name = os.environ.get(KNOB)
    if not name:
        return _detect()
    try:
        target = get(name)
    except OptionError as error:
        raise OptionError(
            error.what, where=f"{KNOB}={name}", expected=error.expected, hint=error.hint
        ) from error
    if not can_run(target):
        raise OptionError(
            f"this machine cannot run target {target.name!r}",
            where=f"{KNOB}={name}",
            expected=f"one of {', '.join(t.name for t in TARGETS.values() if can_run(t))}",
        )
    return _with_facts(target)


def resolve(name: str) -> Target:
    """Return the target with a name; `native` is this machine. Raises OptionError if there is
    none."""
    return native() if name == "native" else get(name)


def sources() -> dict[str, str]:
    """Return where the value of each field of `native()` comes from: `table`, `system` or
    `measured`."""
    table = get(native().name)
    origins = {"system": _system_facts(table), "measured": _figures(table.name)}
    known = {field: origin for origin, facts in origins.items() for field in facts}
    return {field.name: known.get(field.name, "table") for field in fields(table)}


def forget() -> None:
    """Drop cached figures: the next call of `native` reads them again."""
    for cached in (_detect, _figures):
        cached.cache_clear()


def can_run(target: Target) -> bool:
    """Return whether this machine has the target's architecture and all of its instructions."""
    own = family()
    if own is None or target.arch != own.name:
        return False
    flags = cpu_flags()
    level = LEVELS[target.name]
    beyond = set(target.features) - set(level.target.features)
    if not flags:
        return level is own.levels[-1] and not beyond
    return level.flags <= flags and beyond <= _features(own)


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Return the first core's flags in /proc/cpuinfo; empty without such a file."""
    return parse_flags(_cpu_lines())


def has_steady_counter() -> bool:
    """Return whether code can read a counter shared by all cores, with a constant rate and no
    stops."""
    own = family()
    return own is not None and cpu_flags() >= own.steady


def processor() -> str:
    """Return the first core's maker, model, stepping and flags, which identify measured figures."""
    lines = [line for line in _cpu_lines() if line.partition(":")[0].strip() in _IDENTITY]
    return "\n".join(lines) or f"{platform.machine()} {platform.processor()}"


def processor_name() -> str:
    """Return the processor's name, or the machine's architecture if the system does not tell it."""
    named = (line.partition(":") for line in _cpu_lines())
    names = {key.strip(): value.strip() for key, _, value in named}
    return names.get("model name") or platform.processor() or platform.machine()


@functools.cache
def _cpu_lines() -> list[str]:
    """Return the lines of /proc/cpuinfo for the first core."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.partition("\n\n")[0].splitlines()


def parse_flags(lines: list[str]) -> frozenset[str]:
    """Parse the flags in lines of /proc/cpuinfo: `flags : ...` on x86, `Features : ...` on Arm."""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def parse_size(text: str) -> int:
    """Parse a cache's size file, such as `48K`; 0 if it is malformed."""
    text = text.strip()
    unit = _CACHE_UNITS.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0


@functools.cache
def _detect() -> Target:
    own = family()
    if own is None:
        known = [name for each in FAMILIES.values() for name in each.machines]
        raise OptionError(
            f"cannot generate code for a {platform.machine()!r} processor",
            expected=f"one of {', '.join(known)}",
        )
    best = next((t for t in TARGETS.values() if can_run(t)), own.levels[-1].target)
    return _with_facts(best)


def family() -> Family | None:
    """Return the family of this machine; None if code cannot be generated for it."""
    name = platform.machine().lower()
    return next((each for each in FAMILIES.values() if name in each.machines), None)


def _features(family: Family) -> set[str]:
    """Return LLVM's names of the features that this machine has beyond its level."""
    return {llvm for flag, llvm in family.features.items() if flag in cpu_flags()}


def _with_facts(target: Target) -> Target:
    """Return the target with this machine's facts and measured figures."""
    return replace(target, **_system_facts(target), **_figures(target.name))


def _system_facts(target: Target) -> dict[str, Any]:
    """Return this machine's triple, further features, rates of instructions and cache sizes, by the
    target's fields."""
    known = family_of(target)
    present = _features(known) & LEVELS[target.name].extras
    extra = [llvm for llvm in known.features.values() if llvm in present]
    return {
        "triple": known.triples.get(platform.system(), target.triple),
        "features": tuple(dict.fromkeys((*target.features, *extra))),
        "rates": tuple(known.rates.get(_vendor(), ())),
        **{f"l{level}": size for level, size in _caches().items() if level in (1, 2, 3)},
    }


def _vendor() -> str:
    """Return the first core's maker, as x86's /proc/cpuinfo names it; empty elsewhere."""
    named = (line.partition(":") for line in _cpu_lines())
    return next((value.strip() for key, _, value in named if key.strip() == "vendor_id"), "")


@functools.cache
def _figures(target: str) -> Mapping[str, Any]:
    return measured.read(target, processor())


@functools.cache
def _caches() -> dict[int, int]:
    """Return the first core's data cache sizes by level, in bytes; empty if /sys does not say."""
    sizes: dict[int, int] = {}
    for index in sorted(_CACHE_ROOT.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = parse_size((index / "size").read_text())
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size:
            sizes[level] = size
    return sizes
