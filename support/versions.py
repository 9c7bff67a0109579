"""The versions that a bug report needs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("tessella", "xdsl", "llvmlite", "numpy", "onnx")


def versions() -> str:
    """Return the versions of tessella and of its dependencies, in one line."""
    return ", ".join(map(_version, _PACKAGES))


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
