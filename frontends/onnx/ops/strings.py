"""Converters of ops on strings, which NumPy functions compute between subprograms."""

from __future__ import annotations

import re

import numpy as np

from tessella.dialects.nn.core import broadcast_shapes
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import Find
from tessella.frontends.onnx.registry import converts
from tessella.runtime.texts import STRING
from tessella.support.errors import InvalidModelError, ShapeError

_CUT = "the program is cut there"


def _texts(call: Call, index: int = 0) -> Value:
    """Return an operand that must be of strings."""
    value = call.operand(index)
    if value.dtype != STRING:
        raise ShapeError(f"input {index} is not of strings", found=str(value.type))
    return value


@converts("StringConcat", 20, 20, note=_CUT)
def string_concat(call: Call) -> list[Value]:
    """Emit the concatenation of each pair of strings."""
    shape = broadcast_shapes([_texts(call, i).shape for i in range(2)])
    return call.found(Find("string_concat", types=[(STRING, shape)]))


@converts("RegexFullMatch", 20, 20, note=f"the syntax of Python's `re`; {_CUT}")
def regex_full_match(call: Call) -> list[Value]:
    """Emit whether a regular expression matches the whole of each string."""
    shape, pattern = _texts(call).shape, call.text("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidModelError(
            f"attribute 'pattern' is not a regular expression: {error}",
            where=call.node.where,
            found=repr(pattern),
        ) from error
    types = [(np.dtype(np.bool_), shape)]
    return call.found(Find("regex_full_match", {"pattern": pattern}, types))


@converts("StringSplit", 20, 20, note=_CUT)
def string_split(call: Call) -> list[Value]:
    """Emit the parts of each string along a new last dimension, and their number."""
    shape, most = _texts(call).shape, call.attribute("maxsplit")
    settings = {"delimiter": call.text("delimiter", ""), "most": -1 if most is None else most}
    types = [(STRING, [*shape, "count"]), (np.dtype(np.int64), shape)]
    return call.found(Find("string_split", settings, types))


@converts("StringNormalizer", 10, 10, note=f"the locale is ignored; {_CUT}")
def string_normalizer(call: Call) -> list[Value]:
    """Emit the strings without stop words, in one case."""
    shape = _texts(call).shape
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise ShapeError("strings to normalize are no list", expected="[C] or [1, C]")
    call.meaningless("locale")
    settings = {
        "case": call.choice("case_change_action", "NONE", "LOWER", "UPPER"),
        "is_sensitive": call.flag("is_case_sensitive"),
        "stop_words": tuple(call.attribute("stopwords") or ()),
    }
    return call.found(Find("string_normalize", settings, [(STRING, [*shape[:-1], "count"])]))
