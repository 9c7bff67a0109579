"""Converters of ops that divide strings into tokens and count n-grams, which have no native
code."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.build import Array
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.strings import check_pattern, listed
from tessella.frontends.onnx.registry import contributed, converts
from tessella.runtime.texts import STRING
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import MOST


@converts("TfIdfVectorizer", 9, 9, runs="NumPy")
def tf_idf_vectorizer(call: Call) -> Value:
    """Emit how often n-grams of a pool occur in each row, or weights of those that do."""
    is_text = call.x.dtype == STRING
    call.meaningless("pool_strings", "pool_int64s")
    pool = tuple(call.attribute("pool_strings" if is_text else "pool_int64s") or ())
    lengths = call.integer("min_gram_length"), call.integer("max_gram_length")
    places, skips = call.integers("ngram_indexes") or (), call.integer("max_skip_count")
    if not 1 <= lengths[0] <= lengths[1] or skips < 0:
        raise InvalidModelError("the lengths of n-grams are not in order", found=str(lengths))
    starts = _starts(call, len(pool))
    count = nn.ngrams_in(starts, len(pool))
    if len(places) != count or not places or min(places) < 0:
        raise InvalidModelError(
            "attribute 'ngram_indexes' does not number the n-grams",
            where=call.node.where,
            expected=f"{count} numbers from 0 on",
            found=str(len(places)),
        )
    (size,) = call.build.limited(max(places) + 1)
    elements = listed(call, pool) if is_text else call.constant(np.array(pool, call.x.dtype))
    settings = {"starts": starts, "lengths": lengths, "skips": skips, "size": size}
    numbered = call.constant(np.array(places, np.int64))
    counts = call.x.op(nn.CountNgramsOp, elements, numbered, **settings)
    mode, scale = call.choice("mode", "TF", "IDF", "TFIDF"), _weights(call, places, size)
    if mode == "TF":
        return counts
    return ((counts > 0).cast(np.float32) if mode == "IDF" else counts) * scale


def _starts(call: Call, count: int) -> tuple[int, ...]:
    """Return the positions in a pool where the n-grams of each length begin."""
    starts = call.integers("ngram_counts") or ()
    if any(a > b for a, b in pairwise((0, *starts, count))):
        raise InvalidModelError(
            "attribute 'ngram_counts' is not in order", where=call.node.where, found=str(starts)
        )
    return starts


def _weights(call: Call, places: tuple[int, ...], size: int) -> Array:
    given = call.numbers("weights") or (1.0,) * len(places)
    if len(given) != len(places):
        raise InvalidModelError(
            "attribute 'weights' has the wrong length",
            where=call.node.where,
            expected=str(len(places)),
            found=str(len(given)),
        )
    weights = np.zeros(size, np.float32)
    weights[list(places)] = given
    return weights


@contributed("Tokenizer", mark=0, mincharnum=1, pad_value="", tokenexp="")
def tokenizer(call: Call) -> Value:
    """Emit the tokens of each string along a new last dimension."""
    separators, pattern = tuple(call.attribute("separators") or ()), call.text("tokenexp")
    if bool(pattern) == bool(separators):
        call.unsupported("one of tokenexp and separators is needed")
    for name, each in (("tokenexp", pattern), *(("separators", x) for x in separators)):
        check_pattern(call, name, each)
    settings = {
        "pattern": pattern,
        "least": call.integer("mincharnum"),
        "marks": call.flag("mark"),
        "padding": call.text("pad_value", ""),
    }
    operands = call.x, listed(call, separators)
    return call.found(nn.StringTokensOp, *operands, most=[MOST], **settings)[0]
