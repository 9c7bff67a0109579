"""Run a function on shares of work, in processes of this machine or on a Ray cluster."""

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
    """Run each share in a process, and yield the results as they finish. Raises ResourceError if a
    process dies."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(shares), context) as pool:
        for future in as_completed([pool.submit(function, share) for share in shares]):
            try:
                yield future.result()
            except BrokenExecutor as error:
                raise ResourceError(
                    "a worker has ended",
                    hint="repeat the command: finished shares are not measured again",
                ) from error


def on_ray(function: Callable[[X], Y], shares: Sequence[X]) -> Iterator[Y]:
    """Run each share as a task on a Ray cluster, spread over its machines, and yield the results as
    they finish. Ray repeats a task whose worker dies. Raises OptionError if Ray is not
    installed."""
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
