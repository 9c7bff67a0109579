"""The versions that a bug report needs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("tessella", "xdsl", "llvmlite", "numpy", "onnx")


def versions() -> str:
    """Return the versions of tessella and of its dependencies, in one line."""
    found = {name: installed(name) for name in _PACKAGES}
    return ", ".join(f"{name} {known}" if known else f"no {name}" for name, known in found.items())


def installed(package: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
