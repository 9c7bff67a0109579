"""Devices other than the CPU: the interface of a device, and the registry of devices.

A device has its own memory. A program copies values to and from it, and launches kernels on one
in-order queue. The program waits only when the host reads.

The registry is a table of plugins (``support/plugins.py``, the group `tessella.devices`): each
entry point names a `Device`.
"""

from __future__ import annotations

import re
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella.support import plugins
from tessella.support.errors import OptionError, ResourceError
from tessella.support.names import did_you_mean
from tessella.support.plugins import Plugin
from tessella.support.sizes import MOST, Size, value_of
from tessella.targets.device_facts import DeviceFacts

Array = npt.NDArray[Any]

BUILT_IN: dict[str, Plugin] = {
    "opencl": Plugin("tessella", "opencl", "tessella.runtime.opencl:OPENCL", plugins.DEVICES)
}
"""The devices that are part of tessella, by name."""


Fields = tuple[tuple[str, str], ...]
"""The values of the device-defined fields of a place, such as its memory space, each with the
field's name, sorted by name."""


@dataclass(frozen=True)
class Field:
    """A field that a device adds to its places, such as a memory space or the tiling of an
    image."""

    values: tuple[str, ...]
    """The values that a place may name: letters, digits and underscores."""
    default: str
    """The value of the field for tensors for which no kernel and no requested place names another
    value. Tensors are copied to and from other devices with this value."""


@dataclass(frozen=True)
class Source:
    """A kernel in the language of a device.

    The arguments of the kernel are its inputs followed by its outputs. Each begins at the start of
    its slice.
    """

    text: str
    """The program that the device builds. The device defines its language: it may be C, or the name
    of a kernel of the device."""
    entry: str = ""
    """The name of the kernel within the program."""
    groups: tuple[Size, ...] = ()
    """The number of work-groups along each dimension of the launch."""
    items: tuple[int, ...] = ()
    """The number of work-items of a work-group along each dimension."""
    checks: bool = False
    """True if the kernel takes an error word as an argument after its outputs, and sets it to 1
    when an index is out of range."""
    sizes: tuple[Size, ...] = ()
    """The symbolic sizes that the kernel takes as numbers after its tensors and its error word."""

    def launch(self, values: Mapping[str, int]) -> Launch:
        """Return the sizes of a launch for values of the symbols. Raises ResourceError for sizes
        that do not fit in 32 bits."""
        groups, sizes = (
            tuple(value_of(size, values) for size in each) for each in (self.groups, self.sizes)
        )
        for size, number in zip((*self.groups, *self.sizes), (*groups, *sizes), strict=True):
            if number > MOST:
                raise ResourceError(
                    "an array is too large for a device",
                    expected=f"sizes of at most {MOST}",
                    found=f"{size} = {number}",
                    hint="split the input along an open dimension",
                )
        return Launch(groups, sizes)


class Launch(NamedTuple):
    """The sizes of one launch of a kernel."""

    groups: tuple[int, ...] = ()
    """The number of work-groups along each dimension."""
    sizes: tuple[int, ...] = ()
    """The values of the sizes that the kernel takes."""


class Slice(NamedTuple):
    """A range of bytes in a buffer of a device. It begins at a multiple of 64 bytes."""

    buffer: Any
    """The object that ``Device.alloc`` returned."""
    offset: int
    size: int


class Device(ABC):
    """A device: its facts, its memory and its queue.

    Operations run in the order in which they are called. All except ``read`` and ``finish`` may
    return before they have run. tessella calls them from several threads, one at a time.
    """

    emitter: ClassVar[str] = ""
    """The emitter that writes kernels of the stage `tile` in the device's language, as
    ``module:object`` (``passes/emitter.py``). The emitter is imported only to compile, not to run.
    A device without an emitter runs only the kernels that are registered for it."""
    fields: ClassVar[Mapping[str, Field]] = {}
    """The fields of the device's places, by name, beside the precision and the layout."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """The lock that a thread holds while it calls the device."""
        self._built: dict[Source, Any] = {}

    @property
    @abstractmethod
    def facts(self) -> DeviceFacts:
        """The rates and limits of the device. If the device is absent, they are those of a typical
        device."""

    @abstractmethod
    def alloc(self, size: int) -> Any:
        """Return a new buffer of ``size`` bytes, at least 1, in the memory of the device. Raises
        ResourceError if memory is short or the device is absent."""

    def alloc_at(self, size: int, fields: Fields) -> Any:
        """Return a new buffer as ``alloc`` does, for values whose place has these fields. A device
        with fields overrides this method."""
        return self.alloc(size)

    @abstractmethod
    def free(self, buffer: Any) -> None:
        """Free a buffer, once the operations that use it have run."""

    @abstractmethod
    def write(self, to: Slice, array: Array) -> None:
        """Copy a contiguous array to a slice of the same size.

        The array stays unchanged until the next ``read`` or ``finish`` returns.
        """

    @abstractmethod
    def read(self, source: Slice, array: Array) -> None:
        """Copy a slice to a contiguous array of the same size, and wait for the copy."""

    @abstractmethod
    def build(self, source: Source) -> Any:
        """Return a kernel that can be launched. Raises TessellaError if it cannot be built."""

    @abstractmethod
    def launch(self, kernel: Any, buffers: Sequence[Slice], launch: Launch) -> None:
        """Run a kernel on its inputs and outputs, with the sizes of ``launch``."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all operations have run."""

    def numbered(self, number: int) -> Device:
        """Return the device of this kind with a number from 1 on, as in ``opencl:1``; number 0 is
        this one. By default, there is only one device of a kind. Raises OptionError if there is no
        device with this number."""
        raise OptionError(
            f"there is no device number {number} of this kind",
            expected="a device without a number",
            found=f"one device, of the class {type(self).__name__}",
        )

    def built(self, source: Source) -> Any:
        """Return the kernel built from a source. Equal sources are built only once."""
        if source not in self._built:
            self._built[source] = self.build(source)
        return self._built[source]

    @property
    def copies_itself(self) -> bool:
        """True if the device copies within its memory without the host."""
        return type(self).copy is not Device.copy

    def copy(self, source: Slice, to: Slice) -> None:
        """Copy between two buffers of the device, whose values may differ in fields."""
        array = np.empty(source.size, np.uint8)
        self.read(source, array)
        self.write(to, array)
        self.finish()


class Memory:
    """A buffer of a device, which is freed with this object."""

    def __init__(self, device: Device, size: int, fields: Fields = ()) -> None:
        self.size = size
        self.checks: Sequence[Callable[[], None]] = ()
        """Functions that raise if a kernel that computed the value found an index out of range."""
        with device.lock:
            self.buffer = device.alloc_at(max(size, 1), fields)
        weakref.finalize(self, _free, device, self.buffer).atexit = False

    def slice(self, offset: int = 0, size: int | None = None) -> Slice:
        """Return the slice of ``size`` bytes at ``offset``; by default, all bytes from ``offset``
        on."""
        return Slice(self.buffer, offset, self.size if size is None else size)


def _free(device: Device, buffer: Any) -> None:
    with device.lock:
        device.free(buffer)


def device_names() -> tuple[str, ...]:
    """Return the names of all devices other than the CPU."""
    return (*BUILT_IN, *(plugin.name for plugin in plugins.plugins(plugins.DEVICES)))


def kind_of(name: str) -> str:
    """Return the name of a device without its number: ``opencl`` for ``opencl:1``."""
    return name.partition(":")[0]


def find_device(name: str) -> Device | None:
    """Return the device with this name, such as ``opencl`` or ``opencl:1``; None if there is none,
    as for CPUs. Raises PluginError if the device's plugin cannot be loaded, and OptionError if
    there is no device with this number."""
    kind, _, number = name.partition(":")
    plugin = BUILT_IN.get(kind) or _plugin(kind)
    if plugin is None:
        return None
    first = _loaded(plugin)
    return first.numbered(int(number)) if int(number or 0) else first


def device(name: str) -> Device:
    """Return the device with this name. Raises OptionError if there is none, and PluginError if its
    plugin cannot be loaded."""
    found = find_device(name)
    if found is None:
        known = device_names()
        raise OptionError(
            f"there is no device {name!r}",
            expected=f"one of {', '.join(known)}" if known else "a package with that device",
            hint=did_you_mean(name, known),
        )
    return found


def fields_of(name: str) -> Mapping[str, Field]:
    """Return the fields that a device defines for its places; none for CPUs and unknown devices.
    Raises PluginError if the device's plugin cannot be loaded."""
    found = find_device(name)
    return {} if found is None else found.fields


def emits(name: str) -> bool:
    """Return whether a device is not a CPU and runs generated kernels."""
    found = find_device(name)
    return found is not None and bool(found.emitter)


def _plugin(name: str) -> Plugin | None:
    listed = plugins.plugins(plugins.DEVICES)
    return next((plugin for plugin in listed if plugin.name == name), None)


def _loaded(plugin: Plugin) -> Device:
    found: object = plugin.load()
    if not isinstance(found, Device):
        raise plugin.error(
            "not a device", expected="a tessella.runtime.devices.Device", found=repr(found)
        )
    for field, known in found.fields.items():
        words = (field, *known.values)
        if known.default not in known.values or not all(map(_WORD.fullmatch, words)):
            raise plugin.error(
                f"invalid field {field!r} of places",
                expected="a name, values of letters, digits and underscores, "
                "and a default among them",
                found=str(known),
            )
    return found


_WORD = re.compile(r"(?!any$|kernel$)\w+", re.ASCII)
"""The names and values of fields. `any` stands for all values; `kernel` is a part of a pin."""
