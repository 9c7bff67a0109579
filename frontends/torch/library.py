"""PyTorch's modules, imported when they are first needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any


@cache
def library(name: str = "torch") -> Any:
    """Return a module of PyTorch."""
    return import_module(name)
