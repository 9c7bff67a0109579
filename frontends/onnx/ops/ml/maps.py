"""Converters of ops on maps, which are dictionaries; NumPy functions compute them between
subprograms."""

from __future__ import annotations

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import CutError, Find
from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.ops.ml.attributes import integers, texts
from tessella.frontends.onnx.registry import converts
from tessella.runtime.elements import dtype_name
from tessella.runtime.texts import STRING
from tessella.support.errors import InvalidModelError

_CUT = "the program is cut there"


@converts(
    "ai.onnx.ml.ZipMap", 1, 1, note=f"an array, or with `maps` a list of dictionaries; {_CUT}"
)
def zip_map(call: Call) -> Value:
    """Emit a dictionary for each row, with the scores by labels."""
    keys = _keys(call, "classlabels_int64s", "classlabels_strings")
    raise CutError(call.node, Find("zip_map", {"keys": keys}))


@converts("ai.onnx.ml.DictVectorizer", 1, 1, note=_CUT)
def dict_vectorizer(call: Call) -> Known:
    """Emit the values of a dictionary in the order of its vocabulary."""
    keys = _keys(call, "int64_vocabulary", "string_vocabulary")
    raise CutError(call.node, Find("dict_vectorize", {"keys": keys}))


@converts("ai.onnx.ml.CastMap", 1, 1, note=_CUT)
def cast_map(call: Call) -> Known:
    """Emit the values of a dictionary as a row."""
    to = call.choice("cast_to", *_CASTS)
    is_sparse = call.choice("map_form", "DENSE", "SPARSE") == "SPARSE"
    most = call.integer("max_map", 1)
    (size,) = call.build.limited(most) if is_sparse else (None,)
    raise CutError(call.node, Find("cast_map", {"to": _CASTS[to], "size": size}))


_CASTS = {"TO_FLOAT": "float32", "TO_STRING": dtype_name(STRING), "TO_INT64": "int64"}
"""The dtype of each value of the attribute ``cast_to``."""


def _keys(call: Call, numbers: str, strings: str) -> tuple[int | str, ...]:
    """Return the keys that one of two attributes lists. Raises InvalidModelError unless exactly one
    does."""
    found = [
        keys for keys in (tuple(integers(call, numbers).tolist()), texts(call, strings)) if keys
    ]
    if len(found) != 1:
        raise InvalidModelError(
            "the keys of maps are missing, or are of two kinds",
            where=call.node.where,
            expected=f"one of {numbers} and {strings}",
            found="both" if found else "neither",
        )
    return found[0]
