"""Dialects and passes of plugins, passes of callers, and the positions of these passes in the
pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeGuard

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from tessella.dialects.place import known_devices
from tessella.passes.kinds import declared
from tessella.support import plugins
from tessella.support.errors import OptionError, TessellaError
from tessella.support.names import did_you_mean
from tessella.support.plugins import DIALECTS, PASSES, Plugin

Stages = Sequence[tuple[str, Sequence[ModulePass]]]


def dialects(taken: Collection[str]) -> dict[str, Callable[[], Dialect]]:
    """Return the dialects of plugins by name, as functions that import them. Raises PluginError for
    a name in ``taken``, or in use by another plugin."""
    return {plugin.name: partial(_dialect, plugin) for plugin in _named(DIALECTS, taken)}


def passes(taken: Collection[str]) -> dict[str, Callable[[], type[ModulePass]]]:
    """Return the passes of plugins by name, as functions that import them. Raises PluginError for a
    name in ``taken``, or in use by another plugin."""
    return {plugin.name: partial(_pass, plugin) for plugin in _named(PASSES, taken)}


def extended(stages: Stages, given: Sequence[object] = ()) -> Stages:
    """Return the pipeline with the passes of plugins that declare a position in it, and with those
    that the caller has given.

    A given pass replaces the passes of its name; if there are none, it goes to the position that it
    declares. Raises PluginError and OptionError if the pipeline lacks a pass that a position
    refers to.
    """
    result = [(stage, list(steps)) for stage, steps in stages]
    taken = {step.name for _, steps in stages for step in steps}
    for plugin in _named(PASSES, taken):
        cls = _pass(plugin)
        if _has_position(cls):
            _insert(result, cls, partial(_instance, plugin, cls), plugin.error)
    for step in given:
        if not isinstance(step, ModulePass):
            raise OptionError(
                "an entry of the option 'passes' is not a pass",
                expected="an xdsl.passes.ModulePass",
                found=f"{step!r} of type {type(step).__name__}",
            )
        _give(result, step)
    return result


def _has_position(cls: type[ModulePass]) -> bool:
    return bool(declared(cls).runs_before or declared(cls).runs_after)


def _give(stages: Sequence[tuple[str, list[ModulePass]]], step: ModulePass) -> None:
    """Replace the passes with the name of a caller's pass by that pass, or insert it at its
    position if there are none. Raises OptionError."""
    found = [(steps, i) for _, steps in stages for i, s in enumerate(steps) if s.name == step.name]
    for steps, i in found:
        steps[i] = step
    if not found and _has_position(type(step)):
        _insert(stages, type(step), lambda: step, partial(_wrong_pass, step.name))
    elif not found:
        raise _wrong_pass(
            step.name,
            "it has no position",
            expected="runs_before or runs_after, as in tessella.passes.kinds.ProgramPass, or the "
            "name of a pass in the pipeline",
        )


def _wrong_pass(name: str, what: str, **details: str | None) -> OptionError:
    return OptionError(f"the pass {name!r} of the option 'passes': {what}", **details)


def is_builtin(step: ModulePass, given: Sequence[object]) -> bool:
    """Return whether a pass is neither a plugin's nor one of those that the caller has given."""
    return plugin_of(step) is None and not any(step is other for other in given)


def plugin_of(step: ModulePass) -> Plugin | None:
    """Return the plugin that provides a pass; None if none does."""
    return next((plugin for plugin in plugins.plugins(PASSES) if plugin.name == step.name), None)


@contextmanager
def blamed(step: ModulePass) -> Generator[Plugin | None]:
    """Yield the plugin that a pass comes from, or None. An exception that a plugin's pass raises in
    the block becomes a PluginError."""
    plugin = plugin_of(step)
    with plugins.blamed(plugin, f"the pass {step.name!r}"):
        yield plugin


def _named(group: str, taken: Collection[str]) -> Sequence[Plugin]:
    found: dict[str, Plugin] = {}
    for plugin in plugins.plugins(group):
        if plugin.name in taken:
            raise plugin.error(f"{plugin.name!r} is there already, in tessella or in xDSL")
        if other := found.get(plugin.name):
            raise plugin.error(f"{plugin.name!r} is there already, in {other.package!r}")
        found[plugin.name] = plugin
    return list(found.values())


def _dialect(plugin: Plugin) -> Dialect:
    found: object = plugin.load()
    if not isinstance(found, Dialect) or found.name != plugin.name:
        raise plugin.error(
            "no such dialect",
            expected=f"a Dialect with the name {plugin.name!r}",
            found=repr(found),
        )
    return found


def _pass(plugin: Plugin) -> type[ModulePass]:
    cls: object = plugin.load()
    if not _is_pass(cls, plugin.name):
        raise plugin.error(
            "no such pass",
            expected=f"a subclass of ModulePass with the name {plugin.name!r}",
            found=repr(cls),
        )
    it = declared(cls)
    known = known_devices()
    if unknown := {*it.bound_devices, *it.excluded_devices} - set(known):
        raise plugin.error(
            "no such device", expected=f"some of {', '.join(known)}", found=", ".join(unknown)
        )
    return cls


def _is_pass(cls: object, name: str) -> TypeGuard[type[ModulePass]]:
    return isinstance(cls, type) and issubclass(cls, ModulePass) and cls.name == name


def _insert(
    stages: Sequence[tuple[str, list[ModulePass]]],
    cls: type[ModulePass],
    make: Callable[[], ModulePass],
    error: Callable[..., TessellaError],
) -> None:
    """Insert a pass at the position that its class declares: before the first pass of one name, or
    after the last pass of another. Raises ``error`` if there is no position."""
    before, after = declared(cls).runs_before, declared(cls).runs_after
    spots = [(steps, i) for _, steps in stages for i in range(len(steps))]
    names = [steps[i].name for steps, i in spots]
    for name in filter(None, (before, after)):
        if name not in names:
            raise error(
                f"the pipeline has no pass {name!r}",
                expected=f"one of {', '.join(names)}",
                hint=did_you_mean(name, names),
            )
    last = len(names) - 1 - names[::-1].index(after) if after else -1
    if before and names.index(before) <= last:
        raise error(f"no position is before {before!r} and after {after!r}")
    steps, i = spots[names.index(before) if before else last]
    steps.insert(i if before else i + 1, make())


def _instance(plugin: Plugin, cls: type[ModulePass]) -> ModulePass:
    try:
        return cls()
    except TypeError as error:
        raise plugin.error(
            "the pass has options without defaults, which the pipeline does not know"
        ) from error
