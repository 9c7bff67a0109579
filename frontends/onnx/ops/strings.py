"""Converters of ops on strings, which have no native code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts
from tessella.runtime.texts import of_list
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import MOST


def listed(call: Call, texts: Sequence[str]) -> Value:
    """Emit a list of strings."""
    return call.constant(of_list(texts, (len(texts),)))


def check_pattern(call: Call, name: str, pattern: str) -> None:
    """Raise InvalidModelError unless an attribute is a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidModelError(
            f"attribute {name!r} is not a regular expression: {error}",
            where=call.node.where,
            found=repr(pattern),
        ) from error


@converts("StringConcat", 20, 20, runs="NumPy")
def string_concat(call: Call) -> Value:
    """Emit the concatenation of each pair of strings."""
    return call.x.op(nn.StringConcatOp, call.operand(1))


@converts("RegexFullMatch", 20, 20, note="the syntax of Python's `re`", runs="NumPy")
def regex_full_match(call: Call) -> Value:
    """Emit whether a regular expression matches the whole of each string."""
    pattern = call.text("pattern")
    check_pattern(call, "pattern", pattern)
    return call.x.op(nn.StringMatchOp, pattern=pattern)


@converts("StringSplit", 20, 20, note="the number of parts is a symbol", runs="NumPy")
def string_split(call: Call) -> list[Value]:
    """Emit the parts of each string along a new last dimension, and their number."""
    settings = {"delimiter": call.text("delimiter", ""), "limit": call.integer("maxsplit", -1)}
    return call.found(nn.StringSplitOp, call.x, most=[MOST], **settings)


@converts("StringNormalizer", 10, 10, note="the locale is ignored", runs="NumPy")
def string_normalizer(call: Call) -> Value:
    """Emit the strings without stop words, in one case."""
    call.meaningless("locale")
    case = call.choice("case_change_action", *nn.CASES)
    stops = listed(call, call.attribute("stopwords") or ())
    settings = {"case": case, "sensitive": call.flag("is_case_sensitive")}
    return call.found(nn.StringNormalizeOp, call.x, stops, most=[MOST], **settings)[0]
