"""Converters of ops that divide strings into tokens and count n-grams, which NumPy functions
compute between subprograms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import Find
from tessella.frontends.onnx.registry import contributed, converts
from tessella.runtime.texts import STRING
from tessella.support.errors import InvalidModelError, ShapeError

_CUT = "the program is cut there"


@converts("TfIdfVectorizer", 9, 9, note=_CUT)
def tf_idf_vectorizer(call: Call) -> list[Value]:
    """Emit how often n-grams of a pool occur in each row, or weights of those that do."""
    x, attribute = call.x, "pool_strings" if call.x.dtype == STRING else "pool_int64s"
    call.meaningless("pool_strings", "pool_int64s")
    if x.rank not in (1, 2):
        raise ShapeError("rows of words are needed", expected="[C] or [N, C]", found=str(x.type))
    lengths = call.integer("min_gram_length"), call.integer("max_gram_length")
    counted, skips = call.integers("ngram_indexes") or (), call.integer("max_skip_count")
    grams = _grams(call, tuple(call.attribute(attribute) or ()))
    if not 1 <= lengths[0] <= lengths[1] or skips < 0:
        raise InvalidModelError("the lengths of n-grams are not in order", found=str(lengths))
    if len(grams) != len(counted) or not counted or min(counted) < 0:
        raise InvalidModelError(
            "attribute 'ngram_indexes' does not number the n-grams",
            where=call.node.where,
            expected=f"{len(grams)} numbers from 0 on",
            found=str(len(counted)),
        )
    (size,) = call.build.limited(max(counted) + 1)
    weights = np.zeros(size, np.float32)
    given = call.numbers("weights") or (1.0,) * len(counted)
    if len(given) != len(counted):
        raise InvalidModelError(
            "attribute 'weights' has the wrong length",
            where=call.node.where,
            expected=str(len(counted)),
            found=str(len(given)),
        )
    weights[list(counted)] = given
    kept = [
        (g, i) for g, i in zip(grams, counted, strict=True) if lengths[0] <= len(g) <= lengths[1]
    ]
    settings = {
        "grams": tuple(gram for gram, _ in kept),
        "places": tuple(place for _, place in kept),
        "size": size,
        "lengths": lengths,
        "skips": skips,
        "mode": call.choice("mode", "TF", "IDF", "TFIDF"),
        "weights": tuple(weights.tolist()),
    }
    types = [(np.dtype(np.float32), [*x.shape[:-1], size])]
    return call.found(Find("count_grams", settings, types))


def _grams(call: Call, pool: Sequence[int | str]) -> list[tuple[int | str, ...]]:
    """Return the n-grams of a pool, which has those of one element first, then those of two, and
    so on."""
    starts = [*(call.integers("ngram_counts") or ()), len(pool)]
    if starts[0] < 0 or any(a > b for a, b in pairwise(starts)):
        raise InvalidModelError(
            "attribute 'ngram_counts' is not in order", where=call.node.where, found=str(starts)
        )
    found: list[tuple[int | str, ...]] = []
    for n, (start, end) in enumerate(pairwise(starts), 1):
        found += [tuple(pool[i : i + n]) for i in range(start, end - n + 1, n)]
    return found


@contributed("Tokenizer", mark=0, mincharnum=1, pad_value="", tokenexp="")
def tokenizer(call: Call) -> list[Value]:
    """Emit the tokens of each string along a new last dimension."""
    if call.x.dtype != STRING:
        raise ShapeError("input 0 is not of strings", found=str(call.x.type))
    separators = tuple(call.attribute("separators") or ())
    pattern = call.text("tokenexp")
    if bool(pattern) == bool(separators):
        call.unsupported("one of tokenexp and separators is needed")
    for each in (pattern, *separators):
        try:
            re.compile(each)
        except re.error as error:
            raise InvalidModelError(
                f"a pattern is not a regular expression: {error}",
                where=call.node.where,
                found=repr(each),
            ) from error
    settings = {
        "pattern": pattern,
        "separators": separators,
        "least": call.integer("mincharnum"),
        "marks": call.flag("mark"),
        "padding": call.text("pad_value", ""),
    }
    return call.found(Find("tokenize", settings, [(STRING, [*call.x.shape, "count"])]))
