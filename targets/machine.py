"""This machine as a target: found from /proc and /sys on Linux, by a safe guess elsewhere."""

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
from tessella.targets.table import TARGETS, get
from tessella.targets.target import Target

KNOB = "TESSELLA_TARGET"
"""The environment variable that names the native target, instead of finding it."""

_ARCHS = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}
_TRIPLES = {
    ("x86", "Linux"): "x86_64-unknown-linux-gnu",
    ("x86", "Darwin"): "x86_64-apple-darwin-elf",
    ("x86", "Windows"): "x86_64-pc-windows-msvc-elf",
    ("arm", "Linux"): "aarch64-unknown-linux-gnu",
    ("arm", "Darwin"): "arm64-apple-darwin-elf",
}
_V2_FLAGS = frozenset("cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2".split())
_V3_FLAGS = _V2_FLAGS | frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe xsave".split())
_V4_FLAGS = _V3_FLAGS | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
_CPU_FLAGS = {
    "sse": _V2_FLAGS,
    "avx2": _V3_FLAGS,
    "avx512": _V4_FLAGS,
    "neon": frozenset(("asimd",)),
}
"""What /proc/cpuinfo must list for each target: the x86-64 psABI's levels v2, v3 and v4."""

_SAFE = {"x86": "sse", "arm": "neon"}
"""What every machine on which the required Python runs has, where nothing tells more."""

_EXTRA_FLAGS = {
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni",
    "asimddp": "dotprod",
    "i8mm": "i8mm",
    "bf16": "bf16",
}
"""Features beyond the level: the name in /proc/cpuinfo, and LLVM's."""

_EXTRA_OF_TARGET = {
    "avx512": frozenset(("avx512vnni", "avx512bf16", "avx512fp16", "avxvnni")),
    "avx2": frozenset(("avxvnni",)),
    "sse": frozenset[str](),
    "neon": frozenset(("dotprod", "i8mm", "bf16")),
}

_STEADY = frozenset(("constant_tsc", "nonstop_tsc"))
"""The flags of a counter that counts time instead of cycles, also while a core sleeps."""

_IDENTITY = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)
"""The lines of /proc/cpuinfo that say which processor it is, on x86 and on Arm."""

_CACHE_ROOT = Path("/sys/devices/system/cpu/cpu0/cache")
_CACHE_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def native() -> Target:
    """This machine, or the target that the environment variable TESSELLA_TARGET names.

    Raises OptionError where that is unknown or has instructions that this machine lacks.
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
    """The target of this name; `native` is this machine. Raises OptionError where there is none."""
    return native() if name == "native" else get(name)


def sources() -> dict[str, str]:
    """Where each field of `native()` comes from: `table`, `system` or `measured`."""
    table = get(native().name)
    origins = {"system": _system_facts(table), "measured": _figures(table.name)}
    known = {field: origin for origin, facts in origins.items() for field in facts}
    return {field.name: known.get(field.name, "table") for field in fields(table)}


def forget() -> None:
    """Read the measured figures again when `native` is next called."""
    for cached in (_detect, _figures):
        cached.cache_clear()


def can_run(target: Target) -> bool:
    """Whether this machine has the target's architecture and all of its instructions."""
    if target.arch != _arch():
        return False
    flags = cpu_flags()
    if not flags:
        return target.name == _SAFE[target.arch] and not target.features
    extra = {llvm for flag, llvm in _EXTRA_FLAGS.items() if flag in flags}
    return _CPU_FLAGS[target.name] <= flags and extra | {"neon"} >= set(target.features)


@functools.cache
def cpu_flags() -> frozenset[str]:
    """What /proc/cpuinfo lists for the first core; empty where there is no such file."""
    return parse_flags(_cpu_lines())


def has_steady_counter() -> bool:
    """Whether code can read a counter that all cores share, and that neither stops nor changes its
    rate: on x86 if /proc/cpuinfo says so; AArch64 always has the one of its generic timer."""
    return _arch() == "arm" or cpu_flags() >= _STEADY


def processor() -> str:
    """The first core's maker, model, stepping and flags: what measured figures belong to."""
    lines = [line for line in _cpu_lines() if line.partition(":")[0].strip() in _IDENTITY]
    return "\n".join(lines) or f"{platform.machine()} {platform.processor()}"


@functools.cache
def _cpu_lines() -> list[str]:
    """/proc/cpuinfo about the first core: up to the first empty line."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    return text.partition("\n\n")[0].splitlines()


def parse_flags(lines: list[str]) -> frozenset[str]:
    """The flags in lines of /proc/cpuinfo: `flags : ...` on x86, `Features : ...` on Arm."""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def parse_size(text: str) -> int:
    """Bytes from the size file of a cache, such as `48K`; 0 where it cannot be read."""
    text = text.strip()
    unit = _CACHE_UNITS.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0


@functools.cache
def _detect() -> Target:
    arch = _arch()
    if arch is None:
        raise OptionError(
            f"cannot generate code for a {platform.machine()!r} processor",
            expected=f"one of {', '.join(_ARCHS)}",
        )
    best = next((t for t in TARGETS.values() if can_run(t)), TARGETS[_SAFE[arch]])
    return _with_facts(best)


def _arch() -> str | None:
    return _ARCHS.get(platform.machine().lower())


def _with_facts(target: Target) -> Target:
    """The target with what this machine tells, and what was measured on it, put in."""
    return replace(target, **_system_facts(target), **_figures(target.name))


def _system_facts(target: Target) -> dict[str, Any]:
    """This machine's triple, further features and cache sizes, by the target's fields."""
    wanted = _EXTRA_OF_TARGET[target.name]
    flags = cpu_flags()
    extra = tuple(llvm for flag, llvm in _EXTRA_FLAGS.items() if flag in flags and llvm in wanted)
    return {
        "triple": _TRIPLES.get((target.arch, platform.system()), target.triple),
        "features": tuple(dict.fromkeys((*target.features, *extra))),
        **{f"l{level}": size for level, size in _caches().items() if level in (1, 2, 3)},
    }


@functools.cache
def _figures(target: str) -> Mapping[str, Any]:
    return measured.read(target, processor())


@functools.cache
def _caches() -> dict[int, int]:
    """Bytes of data cache by level, of the first core; empty where /sys does not tell."""
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
