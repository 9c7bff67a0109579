"""Facts about machines: vectors, registers, caches, features. Imports nothing of LLVM."""

from tessella.targets.machine import can_run, native, resolve
from tessella.targets.table import get, names
from tessella.targets.target import Target

__all__ = ["Target", "can_run", "get", "names", "native", "resolve"]
