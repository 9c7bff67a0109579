# pyright: reportMissingTypeStubs=false
"""Typed wrappers of llvmlite, which has no type stubs. No other module imports llvmlite."""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tessella.support import fork, memory
from tessella.support.errors import InternalError, LibraryError
from tessella.targets import Target

try:
    import llvmlite
    import llvmlite.binding
except OSError as error:
    memory.require(
        256 << 20
    )  # the library needs this much address space, as it is mapped as a whole
    raise LibraryError("LLVM cannot be loaded", found=str(error.__context__ or error)) from error

_binding: Any = llvmlite.binding
_lock: Any = _binding.ffi.lib._lock
fork.wait_for(_lock)

_ERROR_LINE = re.compile(r":(\d+):\d+: error")
_ROOM, _ROOM_PER_CHARACTER = 32 << 20, 128
"""An upper bound on LLVM's memory for a module, in bytes: a constant, and bytes for each
character."""
_SHOWN_AROUND = 2
"""Lines of context shown around a line that LLVM rejects."""


class Machine(NamedTuple):
    """LLVM's description of a target, as plain values that can be sent to other processes."""

    triple: str
    cpu: str
    features: str
    level: int = 3
    """The optimisation level, 0 to 3."""

    @staticmethod
    def of(target: Target, level: int = 3) -> Machine:
        return Machine(target.triple, target.cpu, target.feature_string, level)


def version() -> str:
    """Return the versions of llvmlite and LLVM, for cache keys."""
    library: Any = llvmlite
    return f"llvmlite {library.__version__} LLVM {'.'.join(map(str, _binding.llvm_version_info))}"


def optimize_and_emit(text: str, target: Target, level: int = 3) -> bytes:
    """Run `emit_object` for a target in this process."""
    return emit_object(text, Machine.of(target, level))


def emit_object(text: str, machine: Machine) -> bytes:
    """Compile LLVM IR text to an object file: position-independent, small code model.

    LLVM's vectorisers do not run, as vectors are explicit in the text. Raises InternalError, which
    shows the line, for text that LLVM rejects, and MemoryError if little memory is left, as LLVM
    aborts the process when an allocation fails. llvmlite's pass manager leaks about 60 KB a call:
    see ``workers``.
    """
    target_machine, module = _target_machine(machine), _optimized(text, machine)
    with _without_strength_reduction():
        return target_machine.emit_object(module)


def assembly(text: str, target: Target, level: int = 3) -> str:
    """Return the assembly of the code that `emit_object` generates."""
    return machine_assembly(text, Machine.of(target, level))


def machine_assembly(text: str, machine: Machine) -> str:
    """Return the assembly of the code that `emit_object` generates for a machine."""
    target_machine, module = _target_machine(machine), _optimized(text, machine)
    with _without_strength_reduction():
        return target_machine.emit_assembly(module)


def optimized_text(text: str, target: Target, level: int = 3) -> str:
    """Return the LLVM IR after LLVM's optimisations, for reading."""
    return str(_optimized(text, Machine.of(target, level)))


def data_layout(target: Target) -> str:
    """Return LLVM's data layout for the target's triple."""
    return str(_target_machine(Machine.of(target, 0)).target_data)


@contextmanager
def _without_strength_reduction() -> Generator[None]:
    """Disable loop strength reduction: addresses already advance with the loops (``addresses``).

    The pass takes longer than all other passes together. The option is global to the process; no
    other thread compiles meanwhile.
    """
    with _lock:
        _binding.set_option("tessella", "-disable-lsr=true")
        try:
            yield
        finally:
            _binding.set_option("tessella", "-disable-lsr=false")


@functools.cache
def initialize() -> None:
    """Initialise LLVM's targets. Functions that need the targets call this one."""
    _binding.initialize_all_targets()
    _binding.initialize_all_asmprinters()


@functools.cache
def _target_machine(machine: Machine) -> Any:
    initialize()
    return _binding.Target.from_triple(machine.triple).create_target_machine(
        cpu=machine.cpu,
        features=machine.features,
        opt=machine.level,
        reloc="pic",
        codemodel="small",
    )


def _parsed(text: str) -> Any:
    memory.require(_ROOM + _ROOM_PER_CHARACTER * len(text))
    # A context for each module frees the module's types and constants with it.
    try:
        module = _binding.parse_assembly(text, _binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(
            f"LLVM does not accept the emitted text: {error}", where=_excerpt(text, str(error))
        ) from error
    return module


def _optimized(text: str, machine: Machine) -> Any:
    """Return the optimised module: its functions are inlined and simplified once, and its loops
    unrolled.

    LLVM's own pipelines simplify five times, and look for vectors and calls. They take twice as
    long for code of the same speed.
    """
    module, level = _parsed(text), min(machine.level, _SIMPLIFIED)
    builder = _binding.create_pass_builder(
        _target_machine(machine), _binding.create_pipeline_tuning_options(speed_level=level)
    )
    _run(module, builder, ["always_inliner"])
    if level > 0:
        simplify = builder.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                simplify.run(function, builder)
        _run(module, builder, ["loop_unroll", "instruction_combine", "simplify_cfg"])
    return module


_SIMPLIFIED = 1
"""The highest optimisation level of LLVM's function simplification."""


def _run(module: Any, builder: Any, passes: Sequence[str]) -> None:
    manager = _binding.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def _excerpt(text: str, message: str) -> str | None:
    """Return the line of ``text`` that LLVM's message names, with numbered context; None if it
    names none."""
    found = _ERROR_LINE.search(message)
    if found is None:
        return None
    line = int(found[1])
    lines = text.splitlines()
    first = max(0, line - 1 - _SHOWN_AROUND)
    shown = enumerate(lines[first : line + _SHOWN_AROUND], first + 1)
    return "\n" + "\n".join(f"{'>' if n == line else ' '}{n:5} {t}" for n, t in shown)
