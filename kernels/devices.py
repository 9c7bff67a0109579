"""The table of rules for devices: the fallback devices for ops without a kernel, and the precisions
that the device prescribes for ops.

A plugin adds the rules for its device:

    register_rules("opencl", DeviceRules(autocast={"f32": ("nn.exp", "nn.layer_norm")}))
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tessella.kernels.registry import CPU, CPUS
from tessella.runtime.devices import kind_of
from tessella.support.errors import InternalError


@dataclass(frozen=True)
class DeviceRules:
    """The rules of a device."""

    falls_to: tuple[str, ...] = (CPU, "host")
    """The devices that run an op if this device has no kernel for it, in order of preference.
    ``CPU`` stands for the CPU of the target."""
    autocast: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The names of ops whose floats are stored in a precision, by precision. They apply if the
    requested places of the device name both a narrow and a wide float."""


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
    """Add the rules for a device. Raises InternalError if the device already has rules."""
    if device in (*CPUS, *_RULES):
        raise InternalError(f"the device {device} already has rules")
    _RULES[device] = rules


@contextmanager
def registered_rules(device: str, rules: DeviceRules) -> Generator[None]:
    """Add the rules for a device until the block ends."""
    register_rules(device, rules)
    try:
        yield
    finally:
        del _RULES[device]
