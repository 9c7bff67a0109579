"""NumPy semantics of the ops on strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.texts import STRING, of_list


@kernel("string_concat")
def concat(lhs: Array, rhs: Array) -> Array:
    """Return the concatenation of each pair of strings."""
    return np.asarray(np.strings.add(lhs, rhs), STRING)


@kernel("string_match")
def match(x: Array, *, pattern: str) -> Array:
    """Return whether a regular expression matches the whole of each string."""
    matches = re.compile(pattern).fullmatch
    found = [matches(text) is not None for text in x.reshape(-1).tolist()]
    return np.array(found, np.bool_).reshape(x.shape)


@kernel("string_find")
def find(x: Array, keys: Array) -> Array:
    """Return the position of each string in the list ``keys``: the last position of a repeated key,
    and the length of the list for a string that is not in it."""
    table = {key: i for i, key in enumerate(keys.tolist())}
    places = [table.get(text, len(keys)) for text in x.reshape(-1).tolist()]
    return np.array(places, np.int64).reshape(x.shape)


@kernel("string_split")
def split(x: Array, *, delimiter: str, limit: int, sizes: object) -> tuple[Array, Array]:
    """Return the parts of each string along a new last dimension, and their number."""
    strip = str if delimiter else str.strip
    rows = [strip(text).split(delimiter or None, limit) for text in x.reshape(-1).tolist()]
    counts = np.array([len(row) for row in rows], np.int64)
    return padded(rows, x.shape), counts.reshape(x.shape)


@kernel("string_normalize")
def normalize(x: Array, stops: Array, *, case: str, sensitive: bool, sizes: object) -> Array:
    """Return the strings of a list, or of a matrix of one row, without stop words and in one
    case."""
    change, key = _CASES[case], _CASES["NONE" if sensitive else "LOWER"]
    stopped = {key(word) for word in stops.tolist()}
    kept = [change(text) for text in x.reshape(-1).tolist() if key(text) not in stopped] or [""]
    return of_list(kept, (*x.shape[:-1], len(kept)))


_CASES: Mapping[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}


def padded(rows: Sequence[Sequence[str]], shape: Sequence[int], padding: str = "") -> Array:
    """Return rows of strings as an array of ``shape`` with an additional last dimension, which is
    as long as the longest row. Shorter rows are padded with ``padding``."""
    width = max(map(len, rows), default=0)
    texts = [text for row in rows for text in (*row, *[padding] * (width - len(row)))]
    return of_list(texts, (*shape, width))
