"""Dynamic batching, which computes several requests in one run of the model.

Requests join a group if their inputs differ only in the number of rows. A group runs when a worker
is free and the group is full or its first request has waited long enough; until then, further
requests join it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import converted, dtype_named, tagged, widened
from tessella.runtime.model import CallableModel
from tessella.support.errors import InternalError, OptionError, TessellaError

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
Outcome = Sequence[Array] | TessellaError

_CLOSE = 1e-3
"""The greatest accepted difference between rows computed alone and together, relative to the
largest value. It allows for rounding in models that compute rows independently."""


@dataclass
class _Waiting:
    """A waiting request, and the future of its outcome."""

    feeds: Feeds
    rows: int
    outcome: asyncio.Future[Outcome]


@dataclass
class _Batch:
    """Requests that run together."""

    rows: int = 0
    requests: list[_Waiting] = field(default_factory=list[_Waiting])
    full: asyncio.Event = field(default_factory=asyncio.Event)
    """An event that is set when the batch should not wait for further requests."""


class Batcher:
    """A scheduler for the runs of one model on the threads of an executor.

    ``most`` is the number of rows of a group; with 1, each request runs alone. ``wait`` is the
    longest time in seconds that a request waits for others. ``observe`` is called with the number
    of requests of each run.
    """

    def __init__(
        self,
        model: CallableModel,
        executor: Executor,
        runs: int,
        most: int,
        wait: float,
        observe: Callable[[int], None],
    ) -> None:
        self._model = model
        self._executor = executor
        self._free = asyncio.Semaphore(runs)
        self._most = most
        self._wait = wait
        self._observe = observe
        self._open: dict[object, _Batch] = {}
        """The groups that requests may join, by the key that their requests share."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, feeds: Feeds) -> Sequence[Array]:
        """Return the outputs for a request. Raises TessellaError."""
        waiting = _Waiting(feeds, _rows(feeds), asyncio.get_running_loop().create_future())
        if self._most > 1 and waiting.rows:
            self._join(waiting)
        else:
            self._start(None, _Batch(1, [waiting]))
        outcome = await waiting.outcome
        if isinstance(outcome, TessellaError):
            raise outcome
        return outcome

    def _join(self, waiting: _Waiting) -> None:
        key = tuple((array.dtype, array.shape[1:]) for array in waiting.feeds.values())
        group = self._open.get(key)
        if group is None or group.rows + waiting.rows > self._most:
            if group is not None:
                group.full.set()
            group = self._open[key] = _Batch()
            self._start(key, group)
        group.requests.append(waiting)
        group.rows += waiting.rows
        if group.rows >= self._most:
            group.full.set()

    def _start(self, key: object, group: _Batch) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(key, group))
        self._tasks.add(task)  # the loop itself has only weak references
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, key: object, group: _Batch) -> None:
        if key is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(group.full.wait(), self._wait)
        async with self._free:
            if self._open.get(key) is group:
                del self._open[key]
            requests = [each for each in group.requests if not each.outcome.done()]
            self._observe(len(requests))
            feeds = [each.feeds for each in requests]
            loop = asyncio.get_running_loop()
            outcomes = await loop.run_in_executor(self._executor, outcomes_of, self._model, feeds)
        for each, outcome in zip(requests, outcomes, strict=True):
            if not each.outcome.done():
                each.outcome.set_result(outcome)


def outcomes_of(model: CallableModel, requests: Sequence[Feeds]) -> Sequence[Outcome]:
    """Return the outputs, or the error, of each request. If requests cannot run together, each runs
    alone."""
    together = _together(model, requests) if len(requests) > 1 else None
    return [_alone(model, feeds) for feeds in requests] if together is None else together


def _alone(model: CallableModel, feeds: Feeds) -> Outcome:
    try:
        return model.run(None, feeds)
    except TessellaError as error:
        return error
    except Exception as error:  # the server continues
        bug = InternalError(f"tessella has a bug: {type(error).__name__}: {error}")
        bug.__cause__ = error
        return bug


def _together(model: CallableModel, requests: Sequence[Feeds]) -> Sequence[Outcome] | None:
    """Return the outputs of requests that run as one; None if the model refuses them together."""
    joined = {name: np.concatenate([feeds[name] for feeds in requests]) for name in requests[0]}
    outputs = _alone(model, joined)
    ends = np.cumsum([_rows(feeds) for feeds in requests]).tolist()
    if isinstance(outputs, TessellaError) or any(len(y) != ends[-1] for y in outputs):
        return None
    starts = [0, *ends[:-1]]
    return [[y[a:b] for y in outputs] for a, b in zip(starts, ends, strict=True)]


def check_rows(model: CallableModel, most: int, where: str) -> None:
    """Raise OptionError unless the model computes rows independently. The first dimension of all
    inputs and outputs must be the number of rows, and the model must run 1 to ``most`` rows at
    once.

    Rows that run alone and together are compared if the other dimensions are known.
    """
    infos = [*model.inputs, *model.outputs]
    first = {info.shape[0] if info.shape else 1 for info in infos}
    if len(first) != 1 or not all(isinstance(size, str) for size in first):
        raise OptionError(
            "the model does not compute rows, so requests cannot run together",
            where=where,
            expected="one symbol as the first dimension of all inputs and outputs",
            found=", ".join(map(str, infos)),
            hint="leave --batch out",
        )
    if any(isinstance(size, str) for info in model.inputs for size in info.shape[1:]):
        return
    rows = _drawn(model, most)
    together = _probed(model, rows, where)
    for part in (slice(0, 1), slice(most - 1, most)):
        alone = _probed(model, {name: x[part] for name, x in rows.items()}, where)
        if not all(map(_is_close, alone, (y[part] for y in together))):
            raise OptionError(
                "a row's result depends on the other rows, so requests cannot run together",
                where=where,
                hint="leave --batch out",
            )


def _drawn(model: CallableModel, most: int) -> Feeds:
    """Return ``most`` random rows: normally distributed floats, and small integers that are likely
    to be valid indices."""
    random = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for info in model.inputs:
        dtype, shape = dtype_named(info.dtype), (most, *map(int, info.shape[1:]))
        is_float = widened(np.empty(0, dtype)).dtype.kind == "f"
        drawn = random.standard_normal(shape) if is_float else random.integers(0, 2, shape)
        feeds[info.name] = converted(drawn, dtype)
    return feeds


def _probed(model: CallableModel, feeds: Feeds, where: str) -> Sequence[Array]:
    try:
        return model.run(None, feeds)
    except TessellaError as error:
        raise OptionError(
            f"the model does not run {_rows(feeds)} rows",
            where=where,
            found=str(error),
            hint="compile it for them, as with --dim NAME=1..32, or lower --batch",
        ) from error


def _is_close(alone: Array, together: Array) -> bool:
    if alone.shape != together.shape:
        return False
    x, y = widened(tagged(alone)), widened(tagged(together))
    if x.dtype.kind != "f" or not x.size:
        return np.array_equal(x, y)
    bound = _CLOSE * float(np.max(np.abs(x), initial=0, where=np.isfinite(x)))
    return np.allclose(x, y, rtol=0, atol=bound, equal_nan=True)


def _rows(feeds: Feeds) -> int:
    """Return the number of rows of a request; 0 if its inputs have different numbers of rows."""
    counts = {array.shape[0] if array.ndim else 0 for array in feeds.values()}
    return counts.pop() if len(counts) == 1 else 0
