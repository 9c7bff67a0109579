"""NumPy functions on arrays of strings: steps after a graph break."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.texts import STRING, of_list
from tessella.runtime.values import Array, Value


def concat(inputs: Sequence[Value]) -> Sequence[Array]:
    """Return the concatenation of each pair of strings."""
    left, right = inputs
    return [np.asarray(np.strings.add(left, right), STRING)]


def full_match(inputs: Sequence[Value], *, pattern: str) -> Sequence[Array]:
    """Return whether a regular expression matches the whole of each string."""
    matches = re.compile(pattern).fullmatch
    found = [matches(text) is not None for text in inputs[0].reshape(-1).tolist()]
    return [np.array(found, np.bool_).reshape(inputs[0].shape)]


def split(inputs: Sequence[Value], *, delimiter: str, most: int) -> Sequence[Array]:
    """Return the parts of each string along a new last dimension, padded with empty strings, and
    the number of parts of each string.

    A string is split ``most`` times at most, or without a limit if ``most`` is negative. Without a
    delimiter, a string is split at white space, which is also removed from its ends.
    """
    x = inputs[0]
    strip = str if delimiter else str.strip
    rows = [strip(text).split(delimiter or None, most) for text in x.reshape(-1).tolist()]
    counts = np.array([len(row) for row in rows], np.int64)
    width = int(counts.max(initial=0))
    padded = [text for row in rows for text in (*row, *[""] * (width - len(row)))]
    return [of_list(padded, (*x.shape, width)), counts.reshape(x.shape)]


def normalize(
    inputs: Sequence[Value], *, case: str, is_sensitive: bool, stop_words: Sequence[str]
) -> Sequence[Array]:
    """Return the strings of a vector, or of a matrix of one row, without stop words and in one
    case: LOWER, UPPER, or NONE for that of each string.

    Strings are compared with stop words before the case is changed if ``is_sensitive``, otherwise
    without regard to case. If no string is left, the result is one empty string.
    """
    x, change = inputs[0], _CASES[case]
    key = _CASES["NONE" if is_sensitive else "LOWER"]
    stopped = {key(word) for word in stop_words}
    kept = [change(text) for text in x.reshape(-1).tolist() if key(text) not in stopped] or [""]
    return [of_list(kept, (*x.shape[:-1], len(kept)))]


_CASES: Mapping[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}

STRINGS: Mapping[str, Callable[..., Sequence[Value]]] = {
    "string_concat": concat,
    "regex_full_match": full_match,
    "string_split": split,
    "string_normalize": normalize,
}
