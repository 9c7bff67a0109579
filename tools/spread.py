"""A function of shares, on processes of this machine or of a Ray cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from importlib import import_module
from typing import Any, TypeVar

from tessella.support.errors import OptionError, ResourceError

X = TypeVar("X")
Y = TypeVar("Y")


def on_processes(function: Callable[[X], Y], shares: Sequence[X]) -> Iterator[Y]:
    """Yield the results of shares as they finish, from a process each. Raises ResourceError if a
    process ends."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(shares), context) as pool:
        for future in as_completed([pool.submit(function, share) for share in shares]):
            try:
                yield future.result()
            except BrokenExecutor as error:
                raise ResourceError(
                    "a worker has ended",
                    hint="repeat the command: shares that were finished are not measured again",
                ) from error


def on_ray(function: Callable[[X], Y], shares: Sequence[X]) -> Iterator[Y]:
    """Yield the results of shares as they finish, from tasks that are spread over the machines of a
    Ray cluster. Ray repeats a task whose worker ends. Raises OptionError without Ray."""
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise OptionError(
            "the engine 'ray' needs the package ray", hint="pip install 'tessella[ray]'"
        ) from error
    began = not ray.is_initialized()
    if began:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:
        task: Any = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_called)
        for future in as_completed([task.remote(function, each).future() for each in shares]):
            yield future.result()
    finally:
        if began:
            ray.shutdown()


def _called(function: Callable[[X], Y], share: X) -> Y:
    return function(share)


ENGINES = {
    "processes": on_processes,
    "ray": on_ray,
}
"""The engines by name."""
