"""The table of rules for devices: the fallback devices for ops without a kernel, and the precisions
that the device prescribes for ops.

A plugin adds the rules for its device:

    register_rules("opencl", DeviceRules(autocast={"f32": ("nn.exp", "nn.layer_norm")}))
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from tessella.dialects.place import known_devices
from tessella.kernels.registry import CPU, CPUS
from tessella.runtime.devices import kind_of
from tessella.support.elements import FLOATS
from tessella.support.errors import InternalError


@dataclass(frozen=True)
class DeviceRules:
    """The rules of a device."""

    falls_to: tuple[str, ...] = (CPU, "host")
    """The devices that run an op if this device has no kernel for it, in order of preference.
    ``CPU`` stands for the CPU of the target."""
    autocast: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """For each precision, the names of ops whose floats are stored in it. The table applies if the
    requested places of the device name both a narrow and a wide float type."""


_AMPLIFYING = ("exp", "log", "log2", "log10", "pow", "tan", "sinh", "cosh", "acosh", "atanh")
"""Elementwise ops that amplify relative errors."""

_NO_RULES = DeviceRules()
_RULES: dict[str, DeviceRules] = {
    CPU: DeviceRules(("host",), {"f32": [f"nn.{name}" for name in _AMPLIFYING]}),
    "host": DeviceRules(()),
}


def rules_of(device: str) -> DeviceRules:
    """Return the rules for a device; all CPUs have the rules of ``CPU``."""
    return _RULES.get(CPU if device in CPUS else kind_of(device), _NO_RULES)


def register_rules(device: str, rules: DeviceRules) -> None:
    """Add the rules for a device. Raises InternalError if the device already has rules, and if a
    device or a float does not exist."""
    if device in (*CPUS, *_RULES):
        raise InternalError(f"the device {device} already has rules")
    devices = [name for name in known_devices() if name != "any"]
    _check(device, "device", (device,), devices)
    _check(device, "falls_to", rules.falls_to, [CPU, *devices])
    _check(device, "autocast", tuple(rules.autocast), FLOATS)
    for names in rules.autocast.values():
        _check(device, "autocast", names)
    _RULES[device] = rules


def _check(device: str, what: str, names: object, known: Sequence[str] | None = None) -> None:
    """Raise InternalError unless ``names`` is a list or a tuple of strings, all of them in
    ``known`` if that is given."""
    listed = cast(Sequence[object], names if isinstance(names, list | tuple) else (None,))
    if all(isinstance(n, str) and (known is None or n in known) for n in listed):
        return
    raise InternalError(
        f"the rules for the device {device!r} are wrong: {what}",
        expected="strings" if known is None else f"some of {', '.join(known)}",
        found=f"{names!r}",
    )


@contextmanager
def registered_rules(device: str, rules: DeviceRules) -> Generator[None]:
    """Add the rules for a device until the block ends."""
    register_rules(device, rules)
    try:
        yield
    finally:
        del _RULES[device]
