"""NumPy semantics of the ops that divide strings into tokens and count n-grams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.strings import padded

_MARKS = ("\x02", "\x03")
"""The tokens at the beginning and the end of a marked text."""


@kernel("string_tokens")
def tokens(
    x: Array,
    separators: Array,
    *,
    pattern: str,
    least: int,
    marks: bool,
    padding: str,
    sizes: object,
) -> Array:
    """Return the tokens of each string along a new last dimension, padded to the longest row."""
    patterns = separators.tolist()
    rows = [
        [token for token in _tokens(text, pattern, patterns) if len(token) >= max(1, least)]
        for text in x.reshape(-1).tolist()
    ]
    if marks:
        rows = [[_MARKS[0], *row, _MARKS[1]] for row in rows]
    return padded(rows, x.shape, padding)


def _tokens(text: str, pattern: str, separators: Sequence[str]) -> list[str]:
    if pattern:
        return [found.group() for found in re.finditer(pattern, text)]
    if "" in separators:
        return [*text]
    parts = [text]
    for separator in separators:
        parts = [piece for part in parts for piece in _between(part, separator)]
    return parts


def _between(text: str, separator: str) -> list[str]:
    ends = [0, *(end for found in re.finditer(separator, text) for end in found.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


@kernel("count_ngrams")
def count(
    x: Array,
    pool: Array,
    slots: Array,
    *,
    size: int,
    starts: Sequence[int],
    lengths: Sequence[int],
    skips: int,
) -> Array:
    """Return how often each n-gram of a pool occurs in each row. ``slots`` has the position of each
    n-gram's count in the row of the result."""
    matrix = x.reshape((1, -1)) if x.ndim < 2 else x
    table = dict(zip(_pool(pool.tolist(), starts), slots.tolist(), strict=True))
    counts = np.zeros((len(matrix), size), np.float32)
    for row, into in zip(matrix.tolist(), counts, strict=True):
        for gram in _grams(row, lengths, skips):
            if gram in table:
                into[table[gram]] += 1
    return counts.reshape((*x.shape[:-1], size))


def _pool(elements: Sequence[Any], starts: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the n-grams of a pool, which has those of one element first, then those of two, and
    so on."""
    found: list[tuple[Any, ...]] = []
    for n, (start, end) in enumerate(pairwise((*starts, len(elements))), 1):
        found += [tuple(elements[i : i + n]) for i in range(start, end - n + 1, n)]
    return found


def _grams(row: Sequence[Any], lengths: Sequence[int], skips: int) -> list[tuple[Any, ...]]:
    """Return all n-grams of a row, once for each distance of their elements; the n-grams of one
    element, which have no distance, once."""
    least, most = lengths
    return [
        tuple(row[start : start + step * n : step])
        for step in range(1, skips + 2)
        for n in range(least, most + 1)
        if n > 1 or step == 1
        for start in range(len(row) - step * (n - 1))
    ]
