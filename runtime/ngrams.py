"""NumPy functions that divide strings into tokens and count n-grams: steps after a graph break."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tessella.runtime.texts import of_list
from tessella.runtime.values import Array, Value

_MARKS = ("\x02", "\x03")
"""The tokens at the beginning and the end of a marked text."""


def tokenize(
    inputs: Sequence[Value],
    *,
    pattern: str,
    separators: Sequence[str],
    least: int,
    marks: bool,
    padding: str,
) -> Sequence[Array]:
    """Return the tokens of each string along a new last dimension, padded to the longest row.

    Tokens match a pattern, or lie between separators, which are patterns; an empty separator makes
    each character a token. Tokens of fewer than ``least`` characters are left out. ``marks`` says
    whether each row begins and ends with a mark.
    """
    x = inputs[0]
    rows = [
        [token for token in _tokens(text, pattern, separators) if len(token) >= max(1, least)]
        for text in x.reshape(-1).tolist()
    ]
    if marks:
        rows = [[_MARKS[0], *row, _MARKS[1]] for row in rows]
    width = max(map(len, rows), default=0)
    padded = [token for row in rows for token in (*row, *[padding] * (width - len(row)))]
    return [of_list(padded, (*x.shape, width))]


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


def count(
    inputs: Sequence[Value],
    *,
    grams: Sequence[Sequence[int | str]],
    places: Sequence[int],
    size: int,
    lengths: Sequence[int],
    skips: int,
    mode: str,
    weights: Sequence[float],
) -> Sequence[Array]:
    """Return how often each n-gram occurs in each row, at its place among ``size`` numbers.

    The elements of an n-gram are as far apart as ``skips`` allows: up to that number of elements
    lie between neighbours. ``lengths`` are the least and the greatest n. In the mode IDF, the
    result is the weight of each n-gram that occurs; in the mode TFIDF, counts times weights.
    """
    x = inputs[0]
    matrix = x.reshape((1, -1)) if x.ndim < 2 else x
    table = {tuple(gram): place for gram, place in zip(grams, places, strict=True)}
    counts = np.zeros((len(matrix), size), np.float32)
    for row, into in zip(matrix.tolist(), counts, strict=True):
        for gram in _grams(row, lengths, skips):
            if gram in table:
                into[table[gram]] += 1
    scale = np.array(weights, np.float32)
    if mode == "IDF":
        counts = (counts > 0) * scale
    elif mode == "TFIDF":
        counts = counts * scale
    return [counts.reshape((*x.shape[:-1], size))]


def _grams(row: Sequence[Any], lengths: Sequence[int], skips: int) -> list[tuple[Any, ...]]:
    """Return all n-grams of a row; those of one element are counted once."""
    least, most = lengths
    return [
        tuple(row[start : start + step * n : step])
        for step in range(1, skips + 2)
        for n in range(least, most + 1)
        if n > 1 or step == 1
        for start in range(len(row) - step * (n - 1))
    ]


NGRAMS: Mapping[str, Callable[..., Sequence[Value]]] = {
    "tokenize": tokenize,
    "count_grams": count,
}
