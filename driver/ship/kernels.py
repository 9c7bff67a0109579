"""The kernels of a model's devices as one program, in the device's language or another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.passes import ModulePass

from tessella.dialects import device
from tessella.dialects.graph import Graph
from tessella.driver.build.build import lower
from tessella.driver.build.compiling import Progress, quiet
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import CheckedOptions
from tessella.lowering.emit_device_kernels import EmitDeviceKernelsPass
from tessella.passes.emitter import Language, emitter_of
from tessella.runtime.devices import emits
from tessella.support.errors import OptionError


@dataclass(frozen=True)
class KernelProgram:
    """The kernels of a model in one language."""

    language: Language
    kernels: Sequence[device.KernelOp]

    def text(self) -> str:
        """Return the program as text."""
        return self.language.program(self._texts, self._notes)

    def file(self) -> bytes:
        """Return the program as the content of a file, which is binary for SPIR-V."""
        return self.language.file(self._texts, self._notes)

    @property
    def _texts(self) -> Sequence[str]:
        return [op.text.data for op in self.kernels]

    @property
    def _notes(self) -> Sequence[str]:
        return [_note(op) for op in self.kernels]


def emit_kernels(
    graph: Graph, options: CheckedOptions, language: str, progress: Progress = quiet
) -> KernelProgram:
    """Return the kernels that run on devices, in a language. The graph is consumed. Raises
    TessellaError if no kernel runs on a device with generated kernels, or if the graph cannot be
    lowered."""
    stages = [
        (stage, [_with_language(step, language) for step in steps])
        for stage, steps in pipeline(options)
    ]
    made = lower(
        graph, options, start=graph.stage, stop="tile", progress=progress, stages=stages
    ).stages["tile"]
    kernels = [op for op in made.ops if isinstance(op, device.KernelOp) and emits(op.device.data)]
    if not kernels:
        raise OptionError(
            "no kernel of the model runs on a device with generated kernels",
            found=f"places {', '.join(options.places)}",
            hint="`tessella explain MODEL --places .. --why` shows the reasons",
        )
    return KernelProgram(emitter_of(kernels[0].device.data, language).language, kernels)


def _with_language(step: ModulePass, language: str) -> ModulePass:
    is_emitting = isinstance(step, EmitDeviceKernelsPass)
    return replace(step, language=language) if is_emitting else step


def _note(op: device.KernelOp) -> str:
    """Return the nodes of a kernel, and the size of its launch."""
    nodes, source = ", ".join(node.data for node in op.nodes or ()), op.source
    [groups], [items] = source.groups, source.items
    return f"{nodes}: {groups} groups of {items} work-items"
