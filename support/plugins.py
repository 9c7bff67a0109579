"""Plugins: additions to tessella by other installed packages. tessella finds them by their entry
points and imports each one when it is needed.

| group | what an entry point names | when it is imported |
|---|---|---|
| `tessella.devices` | a ``runtime.devices.Device``, under its name | with its first place |
| `tessella.dialects` | a dialect, under its name: its ops are ``NnOp``s | with its first op |
| `tessella.host` | a module that calls ``runtime.host.kernel`` | for an op without a NumPy kernel |
| `tessella.kernels` | a module that calls ``kernels.registry`` | before kernels are picked |
| `tessella.patterns` | a module that calls ``passes.patterns.register`` | before ops are fused |
| `tessella.passes` | a pass, under its name | before the pipeline is put together |
| `tessella.elements` | a ``support.elements.Element``, under its name | with tessella's elements |
| `tessella.layouts` | a ``dialects.layout.Order``, under its name | with an unknown layout |
| `tessella.places` | a list of places, under its name | when a user names it |
| `tessella.onnx` | a module that calls ``contributed``, under the domain | with its first node |

``TESSELLA_PLUGINS=0`` turns all plugins off. Plugins are code: install only plugins that you trust.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tessella.support.errors import InternalError, PluginError, TessellaError
from tessella.support.foreign import is_of_handler
from tessella.support.knobs import KNOBS

_HINT = "correct or uninstall the package; TESSELLA_PLUGINS=0 leaves all plugins out"

DEVICES = "tessella.devices"
DIALECTS = "tessella.dialects"
ELEMENTS = "tessella.elements"
HOST = "tessella.host"
KERNELS = "tessella.kernels"
LAYOUTS = "tessella.layouts"
PATTERNS = "tessella.patterns"
PASSES = "tessella.passes"
PLACES = "tessella.places"
ONNX = "tessella.onnx"
GROUPS = (DEVICES, DIALECTS, ELEMENTS, HOST, KERNELS, LAYOUTS, PATTERNS, PASSES, PLACES, ONNX)


@dataclass(frozen=True, order=True)
class Plugin:
    """A plugin: an entry point of an installed package."""

    package: str
    """The distribution that declares the entry point, by the name that pip knows."""
    name: str
    value: str
    """The imported object: ``module`` or ``module:object``."""
    group: str

    def load(self) -> Any:
        """Import and return the object that the entry point names. Raises PluginError if the import
        fails, and again in each later call."""
        found = _outcome(self)
        if isinstance(found, PluginError):
            raise found
        return found

    def error(
        self,
        what: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> PluginError:
        """Return an error that names this plugin as its cause."""
        return PluginError(
            f"the plugin {self.name!r} of the package {self.package!r} is broken: {what}",
            where=f'[project.entry-points."{self.group}"] {self.name} = "{self.value}"',
            expected=expected,
            found=found,
            hint=f"{hint} {_HINT}" if hint else _HINT,
        )


def plugins(group: str) -> Sequence[Plugin]:
    """Return the plugins of a group, sorted by package and name; none if plugins are turned off."""
    return _installed(group) if KNOBS.plugins else ()


@contextmanager
def blamed(
    plugin: Plugin | None, what: str, through: type[Exception] | tuple[()] = ()
) -> Generator[None]:
    """Turn an exception that a plugin's code raises in the block into PluginError. ``what`` names
    the code in the message.

    Exceptions of the class ``through``, and those that ``explained`` lets through, propagate.
    """
    if plugin is None:
        yield
        return
    with explained(plugin.error, what, through):
        yield


@contextmanager
def explained(
    make: Callable[[str], TessellaError], what: str, through: type[Exception] | tuple[()] = ()
) -> Generator[None]:
    """Turn an exception that foreign code raises in the block into an error that ``make`` returns.
    ``what`` names the code in the message.

    TessellaErrors propagate unchanged, except InternalError. MemoryError, exceptions of signal
    handlers and exceptions of the class ``through`` propagate, too.
    """
    try:
        yield
    except through:
        raise
    except Exception as error:
        on_purpose = isinstance(error, TessellaError) and not isinstance(error, InternalError)
        if on_purpose or isinstance(error, MemoryError) or is_of_handler(error):
            raise
        raise make(f"{what} raised {type(error).__name__}: {error}") from error


def import_all(group: str) -> None:
    """Import all plugins of a group. Raises PluginError if an import fails."""
    for plugin in plugins(group):
        plugin.load()


@cache
def _installed(group: str) -> Sequence[Plugin]:
    # a package that is on the path twice counts once
    found = {
        Plugin(entry.dist.name if entry.dist else "?", entry.name, entry.value, group)
        for entry in entry_points(group=group)
    }
    return sorted(found)


@cache
def _outcome(plugin: Plugin) -> Any:
    """Import the object that an entry point names, or return the error. The outcome is cached, so
    that a partly imported module is not imported a second time."""
    try:
        return EntryPoint(plugin.name, plugin.value, plugin.group).load()
    except Exception as error:  # code of another package may raise any exception
        wrapped = plugin.error(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped
