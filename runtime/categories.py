"""NumPy functions on categories that are strings, and on dictionaries: steps after a graph
break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.elements import dtype_named
from tessella.runtime.values import Array, Value
from tessella.support.errors import ExecutionError


def replace(
    inputs: Sequence[Value],
    *,
    keys: Sequence[str],
    values: Sequence[float | str],
    default: float | str,
    dtype: str,
) -> Sequence[Array]:
    """Return the value of each string by its key, in a dtype; ``default`` for any other string."""
    x, table = inputs[0], dict(zip(keys, values, strict=True))
    found = [table.get(text, default) for text in x.reshape(-1).tolist()]
    return [np.array(found, dtype_named(dtype)).reshape(x.shape)]


def one_hot(inputs: Sequence[Value], *, keys: Sequence[str], zeros: bool) -> Sequence[Array]:
    """Return a row for each string, with a one at the place of the string among the keys. Raises
    ExecutionError for another string, unless ``zeros``."""
    x, table = inputs[0], {key: i for i, key in enumerate(keys)}
    texts = x.reshape(-1).tolist()
    places = np.array([table.get(text, len(keys)) for text in texts], np.int64)
    if not zeros and (places == len(keys)).any():
        wrong = texts[int(np.argmax(places == len(keys)))]
        raise ExecutionError("a string is no category", found=repr(wrong))
    return [np.eye(len(keys) + 1, len(keys), dtype=np.float32)[places.reshape(x.shape)]]


CATEGORIES: Mapping[str, Callable[..., Sequence[Value]]] = {
    "string_replace": replace,
    "string_one_hot": one_hot,
}
