"""The names that `perf` shows for generated code: each kernel, with the nodes that it computes.

`perf` reads ``/tmp/perf-PID.map``, which has a line ``START SIZE NAME`` for each function, with
numbers in hexadecimal (``tools/perf/Documentation/jit-interface.txt`` in Linux). The names live
beside the code, not in its text, so that equal kernels have equal text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from tessella.support.errors import OptionError

Entry = tuple[str, int, int, Sequence[str]]
"""A function: name, address, size in bytes, and the nodes that it computes."""


def label(name: str, nodes: Sequence[str]) -> str:
    """Return a kernel's name with the nodes that it computes: ``conv_relu_1 [conv, relu]``."""
    known = ", ".join(dict.fromkeys(nodes))
    return f"{name} [{known}]" if known else name


def write(entries: Iterable[Entry]) -> None:
    """Append functions to the map of this process for `perf`. Raises OptionError if the map cannot
    be written."""
    path = f"/tmp/perf-{os.getpid()}.map"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.writelines(_lines(entries))
    except OSError as error:
        raise OptionError(
            f"cannot write the map for perf: {error.strerror or error}",
            where=path,
            hint="TESSELLA_PERF=0 leaves it out",
        ) from error


def _lines(entries: Iterable[Entry]) -> Iterator[str]:
    names: dict[tuple[int, int], list[str]] = {}
    for name, start, size, nodes in entries:
        names.setdefault((start, size), []).append(label(name, nodes))
    for (start, size), all_names in names.items():
        yield f"{start:x} {size:x} {' = '.join(all_names)}\n"
