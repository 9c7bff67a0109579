"""What other installed packages add: found by their entry points, imported when it is needed.

| group | an entry point | imported |
|---|---|---|
| `tessella.dialects` | a dialect, under its name: its ops are ``NnOp``s | with its first op |
| `tessella.host` | a module that calls ``runtime.host.kernel`` | for an op without a NumPy kernel |
| `tessella.kernels` | a module that calls ``kernels.registry`` | before kernels are picked |
| `tessella.patterns` | a module that calls ``passes.patterns.register`` | before ops are fused |
| `tessella.passes` | a pass, under its name | before the pipeline is put together |

``TESSELLA_PLUGINS=0`` leaves them all out. A plugin is a program: install those that you trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tessella.support.errors import PluginError
from tessella.support.knobs import KNOBS

_HINT = "correct or uninstall the package; TESSELLA_PLUGINS=0 leaves all plugins out"

DIALECTS = "tessella.dialects"
HOST = "tessella.host"
KERNELS = "tessella.kernels"
PATTERNS = "tessella.patterns"
PASSES = "tessella.passes"


@dataclass(frozen=True, order=True)
class Plugin:
    """An entry point."""

    package: str
    """The distribution that has it, by the name that pip knows."""
    name: str
    value: str
    """``module`` or ``module:object``."""
    group: str

    def load(self) -> Any:
        """Import it. Raises PluginError where that fails, also each further time."""
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
        """An error that says which plugin is at fault."""
        return PluginError(
            f"the plugin {self.name!r} of the package {self.package!r} is broken: {what}",
            where=f'[project.entry-points."{self.group}"] {self.name} = "{self.value}"',
            expected=expected,
            found=found,
            hint=f"{hint} {_HINT}" if hint else _HINT,
        )


def plugins(group: str) -> Sequence[Plugin]:
    """The entry points of a group, sorted by package and name; none where plugins are off."""
    return _installed(group) if KNOBS.plugins else ()


def import_all(group: str) -> None:
    """Import the entry points of a group. Raises PluginError."""
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
    except Exception as error:  # it is another's code: whatever it raises
        wrapped = plugin.error(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped
