"""Measure this machine with generated loops, and store the figures.

Each figure is the fastest of many short runs, which excludes disturbances. `tessella targets
--measure` calls `measure` and `store`; nothing else does.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tessella.codegen.link import link
from tessella.codegen.objects import compile_modules
from tessella.codegen.probes import (
    CHAIN,
    accumulators,
    block_bytes,
    probe_texts,
    result_bytes,
)
from tessella.runtime.arena import ALIGNMENT, aligned
from tessella.runtime.image import Library
from tessella.support import disk
from tessella.support.errors import OptionError
from tessella.targets import Target, can_run, machine, measured

Report = Callable[[str], None]

BUDGET = 0.15
"""Seconds for measuring one figure, in addition to allocating its buffers."""

_TURNS = 20_000
"""Iterations of an arithmetic loop in one run: about 0.1 ms."""

_MOVED = 1 << 22
"""The least bytes that one run of a memory loop moves."""

_MEMORY = (1 << 26, 1 << 29)
"""The least and the greatest size in bytes of the buffer that measures main memory. The buffer
should have twice the size of the last-level cache."""

_PROBE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Probe:
    """A compiled loop that measures the machine, and the amount of work of one run. Calling the
    probe runs the loop."""

    amount: float
    """Operations or bytes of one run."""

    function: Callable[..., None]
    arguments: tuple[int, ...]
    keep: tuple[object, ...]
    """Objects that keep the loop's code and the buffers at the addresses in ``arguments`` alive."""

    def __call__(self) -> None:
        self.function(*self.arguments)

    def rate(self, budget: float) -> float:
        """Return operations or bytes per second, from the fastest run within ``budget`` seconds."""
        end = perf_counter() + budget
        best = self._seconds()
        while perf_counter() < end:
            best = min(best, self._seconds())
        return self.amount / best

    def _seconds(self) -> float:
        start = perf_counter()
        self()
        return perf_counter() - start


class Probes:
    """The compiled probes of a target. Raises OptionError if this machine cannot run it."""

    def __init__(self, target: Target) -> None:
        if not can_run(target):
            raise OptionError(f"this machine cannot run code for {target.name}")
        self.target = target
        objects = compile_modules(probe_texts(target), target)
        self._library = Library(link(objects.files, objects.symbols))

    def flops(self) -> Probe:
        """Return a probe of independent multiply-adds on f32 vectors, counted in floating-point
        operations."""
        per_turn = accumulators(self.target) * self.target.lanes(32) * 2
        return self._arithmetic("multiply_adds", per_turn)

    def multiply_add_chain(self) -> Probe:
        """Return a probe of a chain of dependent multiply-adds, counted in multiply-adds."""
        return self._arithmetic("multiply_add_chain", CHAIN)

    def integer_chain(self) -> Probe:
        """Return a probe of a chain of dependent integer operations beside vector work, counted in
        cycles."""
        return self._arithmetic("integer_chain", CHAIN)

    def read(self, size: int) -> Probe:
        """Return a probe that reads ``size`` bytes (rounded up to a block) repeatedly, counted in
        bytes."""
        return self._memory("read_memory", self._blocks(size), 1)

    def write(self, size: int) -> Probe:
        """Return a probe that writes ``size`` bytes (rounded up to a block) repeatedly, counted in
        bytes."""
        return self._memory("write_memory", self._blocks(size), 1)

    def copy(self, size: int) -> Probe:
        """Return a probe that copies one half of ``size`` bytes to the other, counted in bytes read
        and bytes written."""
        return self._memory("copy_memory", self._blocks(-(-size // 2)), 2)

    def add(self, size: int) -> Probe:
        """Return a probe that adds two thirds of ``size`` bytes into the last third, as STREAM's
        triad does, counted in bytes read and written."""
        return self._memory("add_memory", self._blocks(-(-size // 3)), 3)

    def _blocks(self, size: int) -> int:
        """Round a buffer's size in bytes up to whole blocks of a memory loop."""
        block = block_bytes(self.target)
        return max(1, -(-size // block)) * block

    def _arithmetic(self, name: str, per_turn: int) -> Probe:
        source, result = _half_everywhere(ALIGNMENT), aligned(result_bytes(self.target))
        arguments = (source.ctypes.data, result.ctypes.data, 0, _TURNS)
        return self._probe(per_turn * _TURNS, name, arguments, source, result)

    def _memory(self, name: str, size: int, buffers: int) -> Probe:
        """Return a probe of the generated loop ``name``, which reads or writes memory. It runs over
        a buffer of ``buffers`` parts of ``size`` bytes each, and gets the addresses of the first
        and the last part."""
        buffer = _half_everywhere(size * buffers)
        first = buffer.ctypes.data
        repeats = max(1, _MOVED // buffer.nbytes)
        arguments = (first, first + size * (buffers - 1), size, repeats)
        return self._probe(buffer.nbytes * repeats, name, arguments, buffer)

    def _probe(
        self, amount: float, name: str, arguments: tuple[int, ...], *buffers: object
    ) -> Probe:
        function = _PROBE(self._library.address(name))
        return Probe(amount, function, arguments, (self._library, *buffers))


def _half_everywhere(size: int):
    """Return a buffer of ``size`` bytes, filled with the float32 0.5: a factor that keeps sums
    bounded and nonzero."""
    buffer = aligned(size)
    buffer.view("float32").fill(0.5)
    return buffer


def measure(
    target: Target, report: Report = lambda _: None, budget: float = BUDGET
) -> measured.Figures:
    """Measure the figures of ``targets.measured``, each within ``budget`` seconds: about 2 s in
    total.

    ``report`` is called with the name of the next measurement. Raises OptionError for a target that
    this machine cannot run.
    """
    probes = Probes(target)
    vector = target.vector_bytes
    report("clock")
    probes.flops().rate(budget)  # The clock settles at the vector frequency within this time.
    hertz = probes.integer_chain().rate(budget)
    report("multiply-adds")
    per_cycle = probes.flops().rate(budget) / (2 * target.lanes(32) * hertz)
    latency = hertz / probes.multiply_add_chain().rate(budget)
    bandwidths: dict[str, float] = {}
    for level, size in level_sizes(target).items():
        report(f"{level}, {size // 1024} KiB")
        bandwidths[f"{level}_bandwidth"] = _rounded(probes.read(size).rate(budget) / hertz)
    stored = probes.write(target.l1 // 2).rate(budget) / hertz
    return {
        "fma_ports": _count(per_cycle),
        "fma_latency": _count(latency),
        "load_ports": _count(bandwidths["l1_bandwidth"] / vector),
        "store_ports": _count(stored / vector),
        **bandwidths,
        "ghz": _rounded(hertz / 1e9),
    }


def level_sizes(target: Target) -> dict[str, int]:
    """Return the size in bytes of the buffer that measures each cache level and main memory, by
    name. A buffer fits into its level and exceeds the previous level."""
    least, most = _MEMORY
    memory = min(max(2 * target.l3, least), most, max(least, _physical_memory() // 8))
    return {
        "l1": target.l1 // 2,
        "l2": target.l2 // 2,
        "l3": min(4 * target.l2, max(target.l3 // 2, target.l2)),
        "memory": memory,
    }


def _physical_memory() -> int:
    """Return the bytes of physical memory; 4 GiB if the system does not report them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 32


def _count(value: float) -> int:
    return max(1, round(value))


def _rounded(value: float) -> float:
    """Round a figure to three significant digits: further digits would be noise."""
    return float(f"{value:.3g}")


def store(target: Target, figures: Mapping[str, int | float]) -> Path:
    """Write the figures atomically, for `targets.native` to read. Returns the file.

    Raises OptionError if the file cannot be written, or if a figure is out of bounds.
    """
    if not measured.is_plausible(figures):
        raise OptionError(
            "the figures measured are not plausible", found=str(figures), hint="measure again"
        )
    processor = machine.processor()
    path = measured.path(target.name, processor)
    if path is None:
        raise OptionError(
            "measured figures have no folder", expected="TESSELLA_CACHE", found="it is off"
        )
    document = measured.document(target.name, processor, figures)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk.write(path, 0o600, (json.dumps(document, indent=1) + "\n").encode())
    except OSError as error:
        raise OptionError(
            f"cannot write the figures: {error.strerror or error}",
            where=str(path),
            hint="TESSELLA_CACHE names another folder for caches",
        ) from error
    machine.forget()
    return path
