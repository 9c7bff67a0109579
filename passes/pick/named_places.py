"""Lists of places by name, from ``choices.PLACES`` and from plugins.

    mobile, for x86  ->  x86/f16/nhwc, x86/f16, x86/f32/nhwc, x86/f32, x86, host

The device `cpu` in a list stands for the CPU of the target. An entry point of the group
`tessella.places` names a plugin's list, which is a sequence of strings.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import cast

from tessella.dialects.place import is_device, known_devices, parse_place
from tessella.passes.pick.choices import PLACES, at_cpu
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean
from tessella.support.plugins import PLACES as PLUGGED
from tessella.support.plugins import Plugin, plugins


def named_places(name: str, arch: str) -> tuple[str, ...]:
    """Return the places of the list with a name, for a CPU. Raises OptionError for an unknown name,
    and PluginError for an invalid list of a plugin."""
    known = _lists()
    if name not in known:
        raise OptionError(
            f"unknown list of places {name!r}",
            expected=f"one of {', '.join(known)}, or places such as ['x86/f32/nhwc', 'host']",
            hint=_as_list(name, known) or did_you_mean(name, [*known, *known_devices()]),
        )
    found = known[name]
    return at_cpu(_plugged(found, arch) if isinstance(found, Plugin) else found, arch)


def _as_list(text: str, known: Container[str]) -> str | None:
    """Return the hint that a text which lists places must be a list; None for other texts."""
    parts = [part.strip() for part in text.split(",")]
    try:
        for part in parts:
            if part not in known:
                parse_place(part)
    except OptionError:
        return None
    return f"did you mean {parts}?"


def expanded(places: Iterable[str], arch: str) -> tuple[str, ...]:
    """Return the places, with each name of a list replaced by the places of that list. Raises
    OptionError for a string that is neither a place nor such a name."""
    return tuple(each for text in places for each in _expanded(text, arch))


def _expanded(text: str, arch: str) -> Iterator[str]:
    is_name = isinstance(text, str) and "/" not in text and not is_device(text)  # pyright: ignore[reportUnnecessaryIsInstance]
    if is_name:
        yield from named_places(text, arch)
    else:
        parse_place(text)
        yield text


def _lists() -> Mapping[str, Sequence[str] | Plugin]:
    """Return all lists by name. Raises PluginError for a name that already exists."""
    found: dict[str, Sequence[str] | Plugin] = dict(PLACES)
    for plugin in plugins(PLUGGED):
        if plugin.name in found or plugin.name in known_devices():
            raise plugin.error(f"the list of places {plugin.name!r} already exists")
        found[plugin.name] = plugin
    return found


def _plugged(plugin: Plugin, arch: str) -> Sequence[str]:
    """Return the list of a plugin. Raises PluginError unless it is a sequence of places."""
    places: object = plugin.load()
    is_list = isinstance(places, list | tuple)
    listed = cast(Sequence[object], places) if is_list else ()
    texts = [text for text in listed if isinstance(text, str)]
    if not texts or len(texts) != len(listed):
        raise plugin.error("not a list of places", expected="a list of strings", found=repr(places))
    try:
        list(map(parse_place, at_cpu(texts, arch)))
    except OptionError as error:
        raise plugin.error(str(error)) from error
    return texts
