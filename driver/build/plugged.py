"""Dialects and passes of plugins, passes of callers, and the positions of these passes in the
pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard, cast

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
    found = [(plugin, _pass(plugin)) for plugin in _named(PASSES, taken)]
    added = [_Added(cls, partial(_instance, plugin, cls), plugin.error) for plugin, cls in found]
    _insert_all(result, [each for each in added if each.anchors])
    checked = _checked(given)
    _insert_all(result, [_given(step) for step in checked if not _replace(result, step)])
    return result


@dataclass(frozen=True)
class _Added:
    """A pass of a plugin or of the caller, which is added to the pipeline at the position that its
    class declares."""

    cls: type[ModulePass]
    make: Callable[[], ModulePass]
    error: Callable[..., TessellaError]
    """A function that returns an error, which names the plugin or the option that the pass comes
    from."""

    @property
    def anchors(self) -> Sequence[str]:
        """The names of the passes that the position refers to."""
        return [name for name in (self.before, self.after) if name]

    @property
    def before(self) -> str:
        return declared(self.cls).runs_before

    @property
    def after(self) -> str:
        return declared(self.cls).runs_after


def _checked(given: Sequence[object]) -> Sequence[ModulePass]:
    """Return the passes that the caller has given. Raises OptionError for an entry that is not a
    pass, for wrong declarations of its class, and for two passes with one name."""
    checked: list[ModulePass] = []
    for step in given:
        if not isinstance(step, ModulePass):
            raise OptionError(
                "an entry of the option 'passes' is not a pass",
                expected="an xdsl.passes.ModulePass",
                found=f"{step!r} of type {type(step).__name__}",
                hint="call the class" if isinstance(step, type) else None,
            )
        cls = type(step)
        if not isinstance(getattr(step, "name", None), str):
            raise OptionError(
                "an entry of the option 'passes' has no name",
                expected=f"a string {cls.__name__}.name",
                found=repr(getattr(step, "name", None)),
            )
        _check_declarations(cls, partial(_wrong_pass, step.name))
        if any(step.name == other.name for other in checked):
            raise _wrong_pass(step.name, "another pass of the option has the same name")
        checked.append(step)
    return checked


def _replace(stages: Sequence[tuple[str, list[ModulePass]]], step: ModulePass) -> bool:
    """Replace the passes with the name of a caller's pass by that pass. Returns whether there are
    any."""
    found = [(steps, i) for _, steps in stages for i, s in enumerate(steps) if s.name == step.name]
    for steps, i in found:
        steps[i] = step
    return bool(found)


def _given(step: ModulePass) -> _Added:
    """Return the description of a pass that the caller has given. Raises OptionError if its class
    declares no position."""
    added = _Added(type(step), lambda: step, partial(_wrong_pass, step.name))
    if not added.anchors:
        raise added.error(
            "it has no position",
            expected="a subclass of tessella.passes.kinds.ProgramPass with runs_before or "
            "runs_after, or the name of a pass in the pipeline",
        )
    return added


def _wrong_pass(name: str, what: str, **details: str | None) -> OptionError:
    return OptionError(f"the pass {name!r} of the option 'passes': {what}", **details)


def is_builtin(step: ModulePass, given: Sequence[object]) -> bool:
    """Return whether a pass is neither a plugin's nor one of those that the caller has given."""
    return plugin_of(step) is None and not any(step is other for other in given)


def plugin_of(step: ModulePass) -> Plugin | None:
    """Return the plugin that provides a pass; None if none does."""
    return next((plugin for plugin in plugins.plugins(PASSES) if plugin.name == step.name), None)


@contextmanager
def blamed(step: ModulePass, given: Sequence[object] = ()) -> Generator[bool]:
    """Yield whether a pass is a plugin's, or one of those that the caller has given. An exception
    that such a pass raises in the block becomes a PluginError or an OptionError."""
    if any(step is other for other in given):
        with plugins.explained(partial(_wrong_pass, step.name), "it"):
            yield True
        return
    plugin = plugin_of(step)
    with plugins.blamed(plugin, f"the pass {step.name!r}"):
        yield plugin is not None


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
    _check_declarations(cls, plugin.error)
    return cls


def _check_declarations(cls: type[ModulePass], error: Callable[..., TessellaError]) -> None:
    """Raise ``error`` if a pass declares anything of a wrong type, or a device that does not
    exist."""
    it, known = declared(cls), known_devices()
    for name in ("runs_before", "runs_after"):
        if not isinstance(value := getattr(it, name), str):
            raise error(f"{name} is wrong", expected="the name of a pass", found=repr(value))
    for name in ("bound_devices", "excluded_devices", "needed_kernels", "stages"):
        value: object = getattr(it, name)
        is_tuple = isinstance(value, tuple | list)
        if not is_tuple or not all(isinstance(t, str) for t in cast(Sequence[object], value)):
            raise error(f"{name} is wrong", expected="a tuple of strings", found=f"{value!r}")
    if unknown := {*it.bound_devices, *it.excluded_devices} - set(known):
        raise error(
            "no such device", expected=f"some of {', '.join(known)}", found=", ".join(unknown)
        )


def _is_pass(cls: object, name: str) -> TypeGuard[type[ModulePass]]:
    return isinstance(cls, type) and issubclass(cls, ModulePass) and cls.name == name


def _insert_all(stages: Sequence[tuple[str, list[ModulePass]]], added: Sequence[_Added]) -> None:
    """Insert passes, whose positions may refer to each other. Raises their errors if one has no
    position."""
    waiting = list(added)
    while waiting:
        names = {step.name for _, steps in stages for step in steps}
        open_names = {each.cls.name for each in waiting}
        # The error of a pass that refers to an unknown one comes before those of its dependents.
        ready = next((each for each in waiting if names.issuperset(each.anchors)), None)
        ready = ready or next((e for e in waiting if open_names.isdisjoint(e.anchors)), None)
        if ready is None:
            listed = ", ".join(sorted(open_names))
            raise waiting[0].error(f"the positions of these passes refer to each other: {listed}")
        waiting.remove(ready)
        _insert(stages, ready)


def _insert(stages: Sequence[tuple[str, list[ModulePass]]], added: _Added) -> None:
    """Insert a pass at its position: before the first pass of one name, or after the last pass of
    another. Raises its error if there is no position."""
    before, after = added.before, added.after
    spots = [(steps, i) for _, steps in stages for i in range(len(steps))]
    names = [steps[i].name for steps, i in spots]
    for name in added.anchors:
        if name not in names:
            raise added.error(
                f"the pipeline has no pass {name!r}",
                expected=f"one of {', '.join(names)}",
                hint=did_you_mean(name, names),
            )
    last = len(names) - 1 - names[::-1].index(after) if after else -1
    if before and names.index(before) <= last:
        raise added.error(f"no position is before {before!r} and after {after!r}")
    steps, i = spots[names.index(before) if before else last]
    steps.insert(i if before else i + 1, added.make())


def _instance(plugin: Plugin, cls: type[ModulePass]) -> ModulePass:
    try:
        return cls()
    except TypeError as error:
        raise plugin.error(
            "the pass has options without defaults, which the pipeline does not know"
        ) from error
