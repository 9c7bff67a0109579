"""OpenCL devices, which use `pyopencl`.

`TESSELLA_OPENCL` selects devices by a part of their names; by default, all devices of the system
count. The place `opencl` names the first one, `opencl:1` the second one. The packages
`pocl-binary-distribution` and `intel-opencl-rt` have drivers for devices that run on the CPU.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tessella.runtime.devices import Array, Device, Launch, Slice, Source
from tessella.support.disk import Folder
from tessella.support.errors import InternalError, LibraryError, ResourceError
from tessella.support.knobs import KNOBS
from tessella.targets.device_facts import DeviceFacts

_VENDORS = "OCL_ICD_VENDORS"
"""The environment variable that tells OpenCL's loader the folder of the files that name drivers."""
_SYSTEM = Path("/etc/OpenCL/vendors")
_WHEEL = "libintelocl.so"
"""The file name of the driver in the package `intel-opencl-rt`."""

BINARIES = Folder("binaries", 1 / 64)
"""The cache of compiled programs, by their source, the device and its driver."""

CACHED_BY_DRIVER = frozenset({"Portable Computing Language"})
"""The platforms whose drivers cache binaries themselves. No binaries are taken from them: PoCL, one
of them, would compile each kernel once more for that, for groups of any size."""


USUAL = DeviceFacts(
    flops=2e12, bandwidth=1e11, link=1e10, latency=2e-5, launch=1e-5, local_bytes=32768, units=16
)
"""The rates and limits of a typical device, for which programs are compiled on a machine without
OpenCL."""
VECTORS = 8
"""The number of vectors of work-items in a work-group on a CPU: the number of multiply-adds in
flight in a core that starts two in each cycle, with a latency of four cycles."""
ITEM_REGISTERS = 32
"""Bytes of registers for the accumulators of a work-item of a CPU, as in PlaidML's settings for
CPUs: eight of the sixteen registers of x86-64 for numbers, as operands need registers too."""


class OpenClDevice(Device):
    """An OpenCL device, by its number among those that TESSELLA_OPENCL selects."""

    emitter: ClassVar[str] = "tessella.codegen.semtree.emitter:OPENCL"

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number = number
        self._others: dict[int, OpenClDevice] = {}

    def numbered(self, number: int) -> OpenClDevice:
        """Return the OpenCL device with a number from 1 on. Its facts and its memory raise
        LibraryError if the system has fewer devices."""
        return self._others.setdefault(number, OpenClDevice(number))

    @property
    def facts(self) -> DeviceFacts:
        """The rates and limits of the device."""
        return self._found

    @cached_property
    def _found(self) -> DeviceFacts:
        try:
            is_absent = not self._listed
        except LibraryError:
            is_absent = True
        return USUAL if is_absent else _facts(self._device)

    @cached_property
    def _cl(self) -> Any:
        try:
            module = import_module("pyopencl")
        except ImportError as error:
            raise LibraryError(
                "OpenCL is not installed",
                expected="the package pyopencl, and a driver",
                found=str(error),
                hint="pip install tessella[opencl]",
            ) from error
        return module

    @cached_property
    def _device(self) -> Any:
        wanted = [each for each in self._listed if KNOBS.opencl.lower() in each.name.lower()]
        if self.number < len(wanted):
            return wanted[self.number]
        numbered = f"opencl:{self.number}" if self.number else "OpenCL device"
        names = enumerate(each.name for each in (wanted or self._listed))
        raise LibraryError(
            f"there is no {numbered}",
            expected=f"a device with {KNOBS.opencl!r} in its name" if KNOBS.opencl else None,
            found=", ".join(f"{number}: {name}" for number, name in names) or "no driver",
            hint="install a driver, such as the package pocl-binary-distribution",
        )

    @cached_property
    def _listed(self) -> Sequence[Any]:
        """All devices of all drivers, sorted by the name of the platform, and in the platform's own
        order. OpenCL's loader lists platforms in the order of the files in a folder, which may
        change."""
        with _all_drivers():
            try:
                platforms = sorted(self._cl.get_platforms(), key=lambda each: each.name)
            except self._cl.Error:  # the loader has no driver
                return []
            return [each for platform in platforms for each in platform.get_devices()]

    @cached_property
    def _context(self) -> Any:
        return self._cl.Context([self._device])

    @cached_property
    def _queue(self) -> Any:
        return self._cl.CommandQueue(self._context)

    def is_present(self) -> bool:
        """Return whether the system has an OpenCL device."""
        try:
            return self._device is not None
        except LibraryError:
            return False

    def alloc(self, size: int) -> Any:
        """Return a new OpenCL buffer of ``size`` bytes."""
        try:
            return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)
        except (self._cl.MemoryError, self._cl.RuntimeError, self._cl.LogicError) as error:
            raise ResourceError(
                f"the OpenCL device cannot allocate {size} bytes", found=str(error)
            ) from error

    def free(self, buffer: Any) -> None:
        """Release a buffer. OpenCL keeps it until the operations that use it have run."""
        buffer.release()

    def write(self, to: Slice, array: Array) -> None:
        """Enqueue a copy to the device."""
        if array.nbytes:
            self._copy(to.buffer, array, dst_offset=to.offset, is_blocking=False)

    def read(self, source: Slice, array: Array) -> None:
        """Copy from the device, and wait."""
        if array.nbytes:
            self._copy(array, source.buffer, src_offset=source.offset, is_blocking=True)

    def copy(self, source: Slice, to: Slice) -> None:
        """Enqueue a copy within the memory of the device."""
        if source.size:
            offsets = {"src_offset": source.offset, "dst_offset": to.offset}
            self._copy(to.buffer, source.buffer, byte_count=source.size, **offsets)

    def _copy(self, to: Any, source: Any, **settings: Any) -> None:
        self._cl.enqueue_copy(self._queue, to, source, **settings)

    def build(self, source: Source) -> Any:
        """Compile a program, or read it from the cache, and return its kernel with the number of
        work-items of a work-group."""
        return self._cl.Kernel(self._program(source), source.entry), source.items

    def _program(self, source: Source) -> Any:
        if self._device.platform.name in CACHED_BY_DRIVER:
            return self._from_text(source)
        key = "\n".join((*self._made_by, source.text))
        binary = BINARIES.get(key)
        if binary is not None:
            with suppress(self._cl.Error):  # the driver may refuse a binary, such as a broken one
                return self._compiled([self._device], [binary])
        program = self._from_text(source)
        [made] = program.get_info(self._cl.program_info.BINARIES)
        if made:
            BINARIES.put(key, made)
        return program

    def _from_text(self, source: Source) -> Any:
        try:
            return self._compiled(source.text)
        except self._cl.RuntimeError as error:
            raise InternalError(
                "the OpenCL compiler refuses a kernel", where=source.entry, found=str(error)
            ) from error

    def _compiled(self, *program: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user of a kernel cannot fix compiler warnings
            return self._cl.Program(self._context, *program).build(cache_dir=False)

    @cached_property
    def _made_by(self) -> tuple[str, ...]:
        """The names and versions of the device and its driver, which are a part of the cache key of
        binaries."""
        found = self._device
        platform = found.platform
        return (platform.name, platform.version, found.name, found.version, found.driver_version)

    def launch(self, kernel: Any, buffers: Sequence[Slice], launch: Launch) -> None:
        """Enqueue a kernel, unless it has no work-group. Each slice is passed as two arguments: the
        memory, and an offset in bytes. The sizes follow."""
        function, items = kernel
        total = tuple(n * size for n, size in zip(launch.groups, items, strict=True))
        if 0 in total:
            return
        slices = (x for b in buffers for x in (b.buffer, np.int64(b.offset)))
        function.set_args(*slices, *map(np.int32, launch.sizes))
        self._cl.enqueue_nd_range_kernel(self._queue, function, total, items)

    def finish(self) -> None:
        """Wait for the queue."""
        self._queue.finish()


def _facts(found: Any) -> DeviceFacts:
    """Return the facts of an OpenCL device. Its limits are queried. Its rates are rough: they
    assume 16 operations per cycle and unit, and the bandwidths of typical memory."""
    units, cycles = found.max_compute_units, found.max_clock_frequency * 1e6 or 1e9
    is_cpu = bool(found.type & 2)  # CL_DEVICE_TYPE_CPU
    most = VECTORS * max(1, found.native_vector_width_float) if is_cpu else 256
    items = min(most, found.max_work_group_size)
    return DeviceFacts(
        flops=16 * units * cycles,
        bandwidth=1e10 if is_cpu else 1e11,
        link=1e10,
        latency=2e-5,
        launch=2e-5 if is_cpu else 1e-5,
        group_items=items,
        local_bytes=found.local_mem_size,
        register_bytes=ITEM_REGISTERS * items if is_cpu else DeviceFacts.register_bytes,
        line_bytes=found.global_mem_cacheline_size or 64,
        units=units,
        has_local_memory=found.local_mem_type == 1,  # CL_LOCAL
        runs_in_turn=is_cpu,
    )


@contextmanager
def _all_drivers() -> Generator[None]:
    """Let OpenCL's loader find the drivers of the system and of all packages when it lists
    platforms for the first time in the process, unless the user names a folder.

    The vendor file of `intel-opencl-rt` names a wrong path. The loader in the package `pyopencl`
    reads the folder of `pocl-binary-distribution` in any case.
    """
    driver = Path(sys.prefix, "lib", _WHEEL)
    if _VENDORS in os.environ or not driver.exists():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tessella-opencl-") as folder:
        Path(folder, "wheel.icd").write_text(f"{driver}\n")
        for file in _SYSTEM.glob("*.icd"):
            Path(folder, file.name).write_bytes(file.read_bytes())
        os.environ[_VENDORS] = folder
        try:
            yield
        finally:
            del os.environ[_VENDORS]


OPENCL = OpenClDevice()
"""The device that places name `opencl`, number 0."""
