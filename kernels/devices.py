"""Rules of devices, as a table: where ops run for which a device has no kernel, and the ops that it
keeps in one precision.

A plugin adds the rules of its device:

    register_rules("opencl", DeviceRules(autocast={"f32": ("nn.exp", "nn.layer_norm")}))
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tessella.kernels.registry import CPU, CPUS
from tessella.support.errors import InternalError


@dataclass(frozen=True)
class DeviceRules:
    """The rules of a device."""

    falls_to: tuple[str, ...] = (CPU, "host")
    """The devices of the kernels that run ops for which this device has none, in order of
    preference. ``CPU`` stands for the CPU of the target."""
    autocast: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of ops whose floats are stored in a precision, by precision, where the requested places
    of the device name a narrow float beside a wide one."""


_AMPLIFYING = ("exp", "log", "log2", "log10", "pow", "tan", "sinh", "cosh", "acosh", "atanh")
"""Elementwise ops whose results have a larger relative error than their operands."""

_NO_RULES = DeviceRules()
_RULES: dict[str, DeviceRules] = {
    CPU: DeviceRules(("host",), {"f32": [f"nn.{name}" for name in _AMPLIFYING]}),
    "host": DeviceRules(()),
}


def rules_of(device: str) -> DeviceRules:
    """Return the rules of a device; those of ``CPU`` for each of ``CPUS``."""
    return _RULES.get(CPU if device in CPUS else device, _NO_RULES)


def register_rules(device: str, rules: DeviceRules) -> None:
    """Add the rules of a device. Raises InternalError if it has rules."""
    if device in (*CPUS, *_RULES):
        raise InternalError(f"the device {device} has rules")
    _RULES[device] = rules


@contextmanager
def registered_rules(device: str, rules: DeviceRules) -> Generator[None]:
    """Add the rules of a device for the length of a block."""
    register_rules(device, rules)
    try:
        yield
    finally:
        del _RULES[device]
