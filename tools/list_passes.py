"""The list of passes that `tessella-opt --list-passes` prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.hints import type_repr

from tessella.driver.options import takes_function
from tessella.passes.kinds import declared
from tessella.support.errors import PluginError

PassFactory = Callable[[], type[ModulePass]]


def describe_passes(passes: Mapping[str, Mapping[str, PassFactory]]) -> Iterator[str]:
    """Yield the list of passes by origin.

    A pass has a line with its declarations and its summary, then its options, indented.

        pack-for-fma [statement; at placed; for x86; needs nn.conv]: Pack weights.
    """
    for origin, those in passes.items():
        yield f"// passes of {origin}"
        yield from _described(those)


def _described(passes: Mapping[str, PassFactory]) -> Iterator[str]:
    for name, load in passes.items():
        try:
            cls = load()
        except (ImportError, PluginError) as error:
            yield f"{name}: not available here ({error})"
            continue
        title = f"{name} [{'; '.join(_declaration(cls))}]"
        summary = _summary(cls)
        yield f"{title}: {summary}" if summary else title
        yield from (f"    {option}" for option in _options(cls))


def _declaration(cls: type[ModulePass]) -> Iterator[str]:
    it = declared(cls)
    yield it.kind
    lists = {
        "at": it.stages or ("any stage",),
        "for": it.bound_devices,
        "not for": it.excluded_devices,
        "needs": it.needed_kernels,
        "before": (it.runs_before,),
        "after": (it.runs_after,),
    }
    yield from (f"{word} {', '.join(names)}" for word, names in lists.items() if any(names))


def _summary(cls: type[ModulePass]) -> str:
    """Return the first sentence of a pass's docstring on one line; empty without a docstring."""
    doc = (cls.__doc__ or "").strip()
    if doc.startswith(f"{cls.__name__}("):
        return ""  # @dataclass generates a signature if there is no docstring.
    paragraph = " ".join(doc.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]


def _options(cls: type[ModulePass]) -> Iterator[str]:
    types = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if takes_function(types[field.name]):
            continue  # a pipeline's text cannot have it
        option = f"{field.name.replace('_', '-')}: {type_repr(types[field.name])}"
        default = _default(field)
        yield option if default is dataclasses.MISSING else f"{option} = {_text(default)}"


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _text(value: object) -> str:
    """Return the default value of an option in the syntax of a pipeline."""
    match value:
        case None | bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(_text, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(value)
