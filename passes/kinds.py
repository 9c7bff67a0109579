"""The declarations of a pass, and whether it runs.

    @dataclass(frozen=True)
    class PackForFmaPass(StatementPass):
        name = "pack-for-fma"
        bound_devices = ("x86",)
        needed_kernels = ("nn.conv",)

A pass without declarations, such as xDSL's, is a program pass for all devices.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tessella import kernels, targets
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.dialects.tile import KernelOp
from tessella.kernels.registry import serves
from tessella.passes.pick.places import requested
from tessella.runtime.devices import kind_of
from tessella.support.knobs import KNOBS
from tessella.targets import Target

Kind = Literal["program", "kernel", "statement", "debug"]


@dataclass(frozen=True)
class ProgramPass(ModulePass, ABC):
    """A pass that may rewrite the whole program."""

    kind: ClassVar[Kind] = "program"
    bound_devices: ClassVar[tuple[str, ...]] = ()
    """The pass runs only if one of these is requested; empty for all devices."""
    excluded_devices: ClassVar[tuple[str, ...]] = ()
    """The pass does not run if one of these is requested."""
    needed_kernels: ClassVar[tuple[str, ...]] = ()
    """The pass runs only if each of these is registered for a requested device.

    `nn.conv` stands for any kernel of that op, `nn.conv/winograd` for the kernel with that name,
    and `nn.conv at opencl/f16` for a kernel that runs at this place, which must be requested.
    """
    stages: ClassVar[tuple[str, ...]] = ()
    """The stages of the pipeline that have ops for the pass to rewrite; empty for any stage."""
    runs_before: ClassVar[str] = ""
    """A plugin's pass runs before the first pass with this name in the pipeline."""
    runs_after: ClassVar[str] = ""
    """A plugin's pass runs after the last pass with this name in the pipeline."""


@dataclass(frozen=True)
class KernelPass(ProgramPass):
    """A pass that visits one kernel at a time, for a target.

    ``rewrite`` must neither read nor change anything outside the kernel: the cost of a kernel is
    found by running it on a copy (``passes/tile/cost.py``).
    """

    kind: ClassVar[Kind] = "kernel"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = targets.resolve(self.target)
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                self.rewrite(kernel, target)

    @abstractmethod
    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        """Rewrite one kernel for a target. In a pipeline, this is the target that the pass's option
        ``target`` names."""


@dataclass(frozen=True)
class StatementPass(ProgramPass):
    """A pass that visits one op at a time, in program order, outer ops first.

    ``rewrite`` may change or replace the op. It must not touch other ops.
    """

    kind: ClassVar[Kind] = "statement"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for statement in list(op.walk()):
            self.rewrite(ctx, statement)

    @abstractmethod
    def rewrite(self, ctx: Context, op: Operation) -> None:
        """Rewrite one op."""


@dataclass(frozen=True)
class DebugPass(ProgramPass):
    """A pass that checks or prints a program. It gets a copy, so it cannot change the program.

    In the pipeline it runs only where ``TESSELLA_DEBUG_PASSES`` names it.
    """

    kind: ClassVar[Kind] = "debug"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.inspect(ctx, op.clone())

    @abstractmethod
    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        """Check or print a program. Raises TessellaError if it is wrong."""


def declared(step: type[ModulePass]) -> type[ProgramPass]:
    """Return the class that declares when a pass runs: its own class, or ``ProgramPass`` for a pass
    such as xDSL's, which declares nothing."""
    return step if issubclass(step, ProgramPass) else ProgramPass


def asked_places(places: Sequence[str], arch: str) -> list[PlaceAttr]:
    """Parse the requested places. The device `any` becomes the CPU ``arch``.

    `host` after other devices is dropped, because NumPy runs every op anyway.
    """
    on_arch = PlaceAttr.get(arch, "any")
    listed = requested(list(map(parse_place, places)))
    return [on_arch.resolved(p) if p.device.data == "any" else p for p in listed]


def why_skipped(step: type[ModulePass], places: Sequence[PlaceAttr], *, named: bool) -> str | None:
    """Return why a pass does not run for requested places, as a sentence; None if it runs.

    ``named`` states that the pass was requested by name, which debug passes require.
    """
    it = declared(step)
    devices = list(dict.fromkeys(kind_of(place.device.data) for place in places))
    if it.kind == "debug" and not named:
        return "it is a debug pass, and TESSELLA_DEBUG_PASSES does not name it"
    if it.bound_devices and not set(it.bound_devices) & set(devices):
        return f"it is for {_listed(it.bound_devices)}, and the places are on {_listed(devices)}"
    if unwanted := [device for device in devices if device in it.excluded_devices]:
        return f"it is not for {_listed(unwanted)}"
    if missing := list(_missing_kernels(it.needed_kernels, places)):
        return f"it needs kernels of {_listed(missing)}, and none is on {_listed(devices)}"
    return None


def _missing_kernels(needed: Sequence[str], places: Sequence[PlaceAttr]) -> Iterator[str]:
    if needed:
        kernels.load()
    for kernel in needed:
        if not any(serves(kernel, place) for place in places):
            yield kernel


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


AnyPass = TypeVar("AnyPass", bound=ModulePass)


def running(
    steps: Sequence[AnyPass], places: Sequence[PlaceAttr], *, named: Sequence[str]
) -> list[AnyPass]:
    """Return the passes that run for requested places. ``TESSELLA_LOG_PASSES`` logs why others do
    not."""
    result: list[AnyPass] = []
    for step in steps:
        reason = why_skipped(type(step), places, named=step.name in named)
        if reason is None:
            result.append(step)
        elif KNOBS.log_passes:
            sys.stderr.write(f"{step.name} is skipped: {reason}\n")
    return result
