# pyright: reportMissingTypeStubs=false
"""The only module that touches llvmlite, which has no type stubs: typed functions around it."""

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
    memory.require(256 << 20)  # the library is mapped as a whole
    raise LibraryError("LLVM cannot be loaded", found=str(error.__context__ or error)) from error

_binding: Any = llvmlite.binding
_lock: Any = _binding.ffi.lib._lock
fork.wait_for(_lock)

_ERROR_LINE = re.compile(r":(\d+):\d+: error")
_ROOM, _ROOM_PER_CHARACTER = 32 << 20, 128
"""Bytes of memory that LLVM takes at most for a module, and for each character of it."""
_SHOWN_AROUND = 2
"""Lines of text shown before and after the one that LLVM could not read."""


class Machine(NamedTuple):
    """What LLVM is told of a target: plain values, which can be sent to other processes."""

    triple: str
    cpu: str
    features: str
    level: int = 3
    """Of optimisation, 0 to 3."""

    @staticmethod
    def of(target: Target, level: int = 3) -> Machine:
        return Machine(target.triple, target.cpu, target.feature_string, level)


def version() -> str:
    """llvmlite's and LLVM's versions, for the keys of caches."""
    library: Any = llvmlite
    return f"llvmlite {library.__version__} LLVM {'.'.join(map(str, _binding.llvm_version_info))}"


def optimize_and_emit(text: str, target: Target, level: int = 3) -> bytes:
    """`emit_object` for a target, in this process."""
    return emit_object(text, Machine.of(target, level))


def emit_object(text: str, machine: Machine) -> bytes:
    """An object file (position-independent, small code model) from LLVM IR text.

    LLVM's vectorisers do not run: vectors are explicit in the text. Raises InternalError, which
    shows the line, for text that LLVM does not accept, and MemoryError if there is little memory:
    LLVM ends the process once there is none. About 60 KB of memory are lost to llvmlite's pass
    manager: see ``workers``.
    """
    target_machine, module = _target_machine(machine), _optimized(text, machine)
    with _without_strength_reduction():
        return target_machine.emit_object(module)


def assembly(text: str, target: Target, level: int = 3) -> str:
    """The assembly of what `emit_object` would make."""
    machine = Machine.of(target, level)
    target_machine, module = _target_machine(machine), _optimized(text, machine)
    with _without_strength_reduction():
        return target_machine.emit_assembly(module)


def optimized_text(text: str, target: Target, level: int = 3) -> str:
    """LLVM's own text after its optimisations, for reading."""
    return str(_optimized(text, Machine.of(target, level)))


def data_layout(target: Target) -> str:
    """The data layout that LLVM itself has for the target's triple."""
    return str(_target_machine(Machine.of(target, 0)).target_data)


@contextmanager
def _without_strength_reduction() -> Generator[None]:
    """Addresses step with the loops as the text has them (``addresses``): looking for better ones
    takes LLVM longer than all else. The option is the process's: no other thread gets to see it."""
    with _lock:
        _binding.set_option("tessella", "-disable-lsr=true")
        try:
            yield
        finally:
            _binding.set_option("tessella", "-disable-lsr=false")


@functools.cache
def initialize() -> None:
    """Load LLVM's targets. Functions that need them call it themselves."""
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
    # A context of its own, so that the types and constants of a module are freed with it.
    try:
        module = _binding.parse_assembly(text, _binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(
            f"LLVM does not accept the emitted text: {error}", where=_excerpt(text, str(error))
        ) from error
    return module


def _optimized(text: str, machine: Machine) -> Any:
    """The module, simplified once around the joining of loops' steps.

    LLVM's own pipelines simplify five times and look for vectors and calls. They take twice as long
    for code as fast: 11 models and 13 kernels run within 4% of it, a GRU 23% faster.
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
"""The level at which LLVM simplifies functions."""


def _run(module: Any, builder: Any, passes: Sequence[str]) -> None:
    manager = _binding.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def _excerpt(text: str, message: str) -> str | None:
    """The line that the message names, with its neighbours, numbered."""
    found = _ERROR_LINE.search(message)
    if found is None:
        return None
    line = int(found[1])
    lines = text.splitlines()
    first = max(0, line - 1 - _SHOWN_AROUND)
    shown = enumerate(lines[first : line + _SHOWN_AROUND], first + 1)
    return "\n" + "\n".join(f"{'>' if n == line else ' '}{n:5} {t}" for n, t in shown)
