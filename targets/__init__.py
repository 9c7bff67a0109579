"""What a machine is: vectors, registers, caches, features. Facts only; imports nothing of LLVM."""

from tessella.targets.machine import can_run, native, resolve
from tessella.targets.table import get, names
from tessella.targets.target import Target

__all__ = ["Target", "can_run", "get", "names", "native", "resolve"]
