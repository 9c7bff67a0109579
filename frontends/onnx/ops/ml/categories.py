"""Converters of ops that replace categories, which are numbers or strings, by others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.ml.attributes import integers, texts
from tessella.frontends.onnx.registry import converts
from tessella.runtime.texts import STRING, of_list
from tessella.support.errors import InvalidModelError, ShapeError

Array = npt.NDArray[Any]

_NOTE = "strings in NumPy"
_RUNS = "native or NumPy"


@dataclass(frozen=True)
class _Mapping:
    """Keys, their values, and the value of everything else."""

    keys: Array
    values: Array
    default: Array


@converts("ai.onnx.ml.LabelEncoder", 1, 4, note=_NOTE, runs=_RUNS)
def label_encoder(call: Call) -> Value:
    """Emit the value of each key, or the default."""
    return _replaced(
        call,
        _pairs(call)
        if call.attribute("classes_strings") is None
        else _classes(call, "classes_strings"),
    )


@converts("ai.onnx.ml.CategoryMapper", 1, 1, note=_NOTE, runs=_RUNS)
def category_mapper(call: Call) -> Value:
    """Emit the string of each integer, or the integer of each string."""
    strings, numbers = texts(call, "cats_strings"), integers(call, "cats_int64s")
    return _replaced(call, _named(call, strings, numbers))


@converts("ai.onnx.ml.OneHotEncoder", 1, 1, note=_NOTE, runs=_RUNS)
def one_hot_encoder(call: Call) -> Value:
    """Emit a row with a one at the category of each element. Without the attribute ``zeros``, an
    element of no category is an error of the call."""
    zeros, is_text = call.flag("zeros", True), call.x.dtype == STRING
    strings, numbers = texts(call, "cats_strings"), integers(call, "cats_int64s")
    keys = _of_strings(strings) if is_text else numbers
    count = len(keys)
    if not count:
        raise InvalidModelError("a OneHotEncoder has no categories", where=call.node.where)
    # without a row of zeros, the place of an element of no category is out of range
    rows = np.eye(count + zeros, count, dtype=np.float32)
    x = call.x if is_text else call.x.cast(np.int64)
    return call.constant(rows).gather(_places(x, keys), 0)


# ** attributes **


def _classes(call: Call, name: str) -> _Mapping:
    strings = texts(call, name)
    return _named(call, strings, np.arange(len(strings)))


def _named(call: Call, strings: tuple[str, ...], numbers: Array) -> _Mapping:
    """Return the mapping between strings and integers, in the direction of the operand."""
    text, number = call.text("default_string", "_Unused"), call.integer("default_int64", -1)
    if len(strings) != len(numbers):
        raise InvalidModelError(
            "there are not as many strings as integers",
            where=call.node.where,
            found=f"{len(strings)} and {len(numbers)}",
        )
    names, default = _of_strings(strings), np.array(number, np.int64)
    if call.x.dtype == STRING:
        return _Mapping(names, numbers, default)
    return _Mapping(numbers, names, of_list([text], ()))


def _pairs(call: Call) -> _Mapping:
    """Return the mapping of a LabelEncoder."""
    keys, values = _listed(call, "keys"), _listed(call, "values")
    if len(keys) != len(values) or keys.ndim != 1:
        raise InvalidModelError(
            "there are not as many keys as values",
            where=call.node.where,
            found=f"{len(keys)} and {len(values)}",
        )
    given = call.tensor("default_tensor")
    defaults = {
        "T": of_list([call.text("default_string", "_Unused")], ()),
        "i": np.array(call.integer("default_int64", -1)),
        "f": np.array(call.number("default_float", -0.0)),
    }
    default = defaults[values.dtype.kind] if given is None else given.array.reshape(())
    return _Mapping(keys, values, default.astype(values.dtype))


def _listed(call: Call, prefix: str) -> Array:
    """Return the keys or the values of a LabelEncoder, which one of four attributes lists."""
    tensor = call.tensor(f"{prefix}_tensor")
    given = [(name, call.attribute(f"{prefix}_{name}")) for name in ("int64s", "floats", "strings")]
    found = [(name, value) for name, value in given if value]
    if len(found) + (tensor is not None) != 1:
        raise InvalidModelError(
            f"a LabelEncoder needs one list of {prefix}",
            where=call.node.where,
            found=", ".join(name for name, _ in found) or "none",
        )
    if tensor is not None:
        return tensor.array.reshape(-1)
    name, value = found[0]
    if name == "strings":
        return _of_strings(value)
    return np.array(value, np.int64 if name == "int64s" else np.float32)


def _of_strings(strings: tuple[str, ...]) -> Array:
    return of_list(strings, (len(strings),))


# ** emission **


def _replaced(call: Call, mapping: _Mapping) -> Value:
    """Emit the value of each element of the first operand."""
    x, keys, values = call.x, mapping.keys, mapping.values
    if (x.dtype == STRING) != (keys.dtype == STRING):
        raise ShapeError("the elements have another type than the keys", found=str(x.type))
    every = np.concatenate([values, mapping.default.reshape(1)])
    return call.constant(every).gather(_places(x, keys), 0)


def _places(x: Value, keys: Array) -> Value:
    """Emit the position of each element in a list of keys, and the number of keys for an element
    that is not in it. A NaN equals a NaN."""
    if x.dtype == STRING:
        return x.op(nn.StringFindOp, x.emitter.constant(keys))
    column = x.column()
    equal = column.equals(x.like(keys.astype(x.dtype)))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        equal = equal | (column.op(nn.IsNanOp) & x.emitter.constant(np.isnan(keys)))
    numbers = x.emitter.constant(np.arange(len(keys), dtype=np.int64))
    return where(equal, numbers, len(keys)).op(nn.ReduceMinOp, axes=(x.rank,), keepdims=False)
