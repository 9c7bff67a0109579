"""The lookup of converters for ops that ONNX lacks, including the converters of plugins.

A plugin is an entry point of the group `tessella.onnx`, whose name is the domain of its ops. The
plugin is imported with the first node of this domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Held
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.registry import (
    Contributed,
    Converter,
    Results,
    added_ops,
    find_registered,
)
from tessella.support import plugins
from tessella.support.names import did_you_mean
from tessella.support.plugins import ONNX, Plugin


def find_contributed(title: str) -> Contributed | None:
    """Return the registry entry for an op, named with its domain, that ONNX's op set lacks; None if
    it is not supported. Raises PluginError."""
    plugin = _plugin(title.rpartition(".")[0])
    entry = find_registered(title)
    if entry is None or plugin is None:
        return entry
    return replace(entry, convert=_guarded(plugin, entry.convert))


def missing(domain: str, op: str) -> str:
    """Return the reason why an op is not supported whose domain neither ONNX nor tessella
    defines."""
    plugin = _plugin(domain)
    if plugin is None:
        return (
            f"domain {domain!r} is not supported: a plugin can add its ops through an entry point "
            f"{domain!r} of the group {ONNX!r} (docs/plugins.md)"
        )
    names = added_ops(domain)
    hint = did_you_mean(op, names)
    listed = f"the plugin of {plugin.package!r} adds only {', '.join(names)} to this domain"
    return f"{listed}; {hint}" if hint else listed


def _plugin(domain: str) -> Plugin | None:
    """Import and return the plugin that adds the ops of a domain; None if there is none.

    Raises PluginError if it cannot be imported or adds no ops, or if two plugins add to the domain.
    """
    found = [plugin for plugin in plugins.plugins(ONNX) if plugin.name == domain]
    if not found:
        return None
    plugin, *others = found
    for other in others:
        raise other.error(f"{plugin.package!r} already adds the ops of this domain")
    plugin.load()
    if not added_ops(domain):
        raise plugin.error(
            "it adds no ops to this domain",
            expected=f"a module that calls contributed(.., domain={domain!r})",
            found=plugin.value,
        )
    return plugin


def _guarded(plugin: Plugin, converter: Converter) -> Converter:
    """Return the converter of a plugin, wrapped so that exceptions and wrong results become a
    PluginError that names the plugin."""

    def convert(call: Call) -> Results:
        with plugins.blamed(plugin, f"the converter of {call.node.title}", through=CutError):
            results = converter(call)
        values = [results] if isinstance(results, Value | Held) else results
        if not _fit(values, call.node):
            raise plugin.error(
                f"the converter of {call.node.title} does not return the results of the node",
                expected=f"{len(call.node.outputs)} values, in a sequence if there are several",
                found=repr(results),
            )
        return values

    return convert


def _fit(results: object, node: Node) -> bool:
    """Return whether a converter has returned a value for each output that a node uses."""
    if not isinstance(results, Sequence):
        return False
    given = [isinstance(value, Value | Held) for value in results]
    return all(i < len(given) and given[i] for i in range(len(node.outputs)) if node.uses(i))
