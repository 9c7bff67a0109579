"""Errors for effects of a traced function outside of the trace, which would happen only while
tracing.

    random.random(), np.random.rand(4)    each call would have the same numbers
    np.random.default_rng().normal()      also from a generator without a seed
    total[0] += 1                         with total an array of an enclosing scope

The states of generators and arrays are compared before and after a trace. If one has changed, the
function is traced again, and the states are compared at each line. Another thread may have changed
a generator; the second trace then shows that no line of the function did.
"""

from __future__ import annotations

import inspect
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

import numpy as np

from tessella.frontends.trace.location import Location, is_users
from tessella.frontends.trace.reached import reached
from tessella.support.errors import TessellaError

R = TypeVar("R")

_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_SEEDED = (
    *(random.Random, random.SystemRandom),
    *(np.random.default_rng, np.random.RandomState, np.random.SeedSequence),
    *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64),
)
_UNSEEDED = frozenset(map(id, _SEEDED))
"""The identities of functions that draw a seed from the system if the caller gives none."""

_SYSTEM: CodeType = random.SystemRandom.getrandbits.__code__
"""The code object of the function by which NumPy draws a seed from the system."""

_SEED: CodeType = random.Random.seed.__code__

_COPIED = 1 << 20
"""The size in bytes up to which an array is copied, so that it can be restored. A larger array has
a checksum instead."""

_DRAW = "draw them before the call, and pass the array as an argument"
_STORE = "pass the array as an argument, and return the new one: x = x.copy(); x += .."


@dataclass(frozen=True)
class _WatchedState:
    """A generator or an array outside of a traced function, and its state before the trace."""

    value: Any
    state: Any

    @staticmethod
    def of(value: Any) -> _WatchedState:
        return _WatchedState(value, _state(value))

    def is_changed(self) -> bool:
        return _state(self.value) != self.state

    def restore(self) -> None:
        """Restore the elements of an array that was copied."""
        if isinstance(self.value, np.ndarray) and isinstance(self.state, bytes):
            array = cast("np.ndarray[Any, Any]", self.value)
            array[...] = np.frombuffer(self.state, array.dtype).reshape(array.shape)

    def error(self, where: str) -> TessellaError:
        if isinstance(self.value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", self.value)
            return TessellaError(
                "an array of an enclosing scope is stored into while tracing: calls would not",
                where=where,
                found=f"an array {array.dtype.name}{list(array.shape)}",
                hint=_STORE,
            )
        name = getattr(self.value, "__name__", None) or repr(self.value)
        return _randomness(where, name.replace("numpy", "np"))


def without_effects(function: Callable[..., Any], static: Sequence[Any], run: Callable[[], R]) -> R:
    """Return the result of ``run``, which traces the function with these values of static
    arguments. Raises TessellaError if the function has an effect outside of the trace."""
    found = reached(function, *static)
    before = [_WatchedState.of(x) for x in (random, np.random, *found) if _is_watched(x)]
    try:
        result = run()
    except Exception:
        for each in before:
            each.restore()
        raise
    changed = [each for each in before if each.is_changed()]
    if changed or any(id(x) in _UNSEEDED for x in found):
        _check_again(function, changed, run)
    return result


def _check_again(
    function: Callable[..., Any], changed: Sequence[_WatchedState], run: Callable[[], Any]
) -> None:
    for each in changed:
        each.restore()
    lines = _LineFinder([_WatchedState.of(each.value) for each in changed])
    before = sys.gettrace()
    sys.settrace(lines.on_call)
    try:
        with suppress(Exception):
            run()
    finally:
        sys.settrace(before)
    for each in changed:
        each.restore()
    if lines.error is not None:
        raise lines.error
    for each in changed:
        if isinstance(each.value, np.ndarray):
            raise each.error(_place(function))


class _LineFinder:
    """A trace function for ``sys.settrace`` that finds the first line of user code, in its own
    thread, that changes a watched state or draws a seed."""

    def __init__(self, watched: Sequence[_WatchedState]) -> None:
        self.error: TessellaError | None = None
        self._watched = watched
        self._latest: Location | None = None

    def on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        is_seeded = code is _SYSTEM or (code is _SEED and frame.f_locals["a"] is None)
        if is_seeded and self.error is None and self._latest is not None:
            self.error = _randomness(str(self._latest), "a generator without a seed")
        return self._on_line if is_users(frame.f_globals.get("__name__")) else None

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.error is None and self._latest is not None:
            for each in self._watched:
                if each.is_changed():
                    self.error = each.error(str(self._latest))
                    break
        at = frame.f_back if event == "return" else frame
        while at is not None and not is_users(at.f_globals.get("__name__")):
            at = at.f_back
        self._latest = Location(at.f_code.co_filename, at.f_lineno) if at else None
        return self._on_line


def _randomness(where: str, found: str) -> TessellaError:
    return TessellaError(
        "random numbers are drawn while tracing: each call would have the same",
        where=where,
        found=found,
        hint=_DRAW,
    )


def _is_watched(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array.flags.writeable and not array.dtype.hasobject
    if value is random or value is np.random:
        return True
    return isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom)


def _state(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        if array.nbytes <= _COPIED:
            return array.tobytes()
        return zlib.crc32(np.ascontiguousarray(array).view("u1").data)
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, random.Random) or value is random:
        return value.getstate()
    name, keys, *others = value.get_state()
    return repr((name, keys.tobytes(), others))


def _place(function: Callable[..., Any]) -> str:
    try:
        lines = inspect.getsourcelines(function)[1]
        return f"{inspect.getsourcefile(function)}:{lines}, in {function.__name__}"
    except (OSError, TypeError):
        return repr(function)
