"""The continuation after a graph break: steps whose result shapes depend on values that they
compute, followed by another subprogram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tessella.runtime.control import CONTROL
from tessella.runtime.events import CallEvent
from tessella.runtime.maps import MAPS
from tessella.runtime.sequences import SEQUENCES
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.runtime.values import Array, Value, is_value, owned
from tessella.support.errors import ExecutionError, ResourceError, ShapeError, TessellaError
from tessella.support.foreign import is_of_handler

P = TypeVar("P")
Q = TypeVar("Q")
R = TypeVar("R", bound="Runs")


class Runs(Protocol):
    """A subprogram that can be run."""

    def run(self, values: Mapping[str, Value], /) -> Sequence[Value]:
        """Run the subprogram, and return its outputs. ``values`` may include values that the
        subprogram does not take. Raises TessellaError if it cannot be compiled or run."""
        ...


class Bounds(NamedTuple):
    """The bounds of a size."""

    low: int
    high: int


@dataclass(frozen=True)
class Interface:
    """The inputs of a subprogram, and facts about them that are known before a run."""

    inputs: tuple[str, ...]
    types: Mapping[str, ValueInfo]
    """The types of the inputs whose types are known. A size that a step determines is represented
    by a name."""
    bounds: Mapping[str, Bounds]
    """The bounds of names that stand for symbols of the program."""
    elements: Mapping[str, Dimensions] = field(default_factory=dict[str, Dimensions])
    """The elements of inputs that are known to be shapes, as numbers and names, by the name of the
    input."""


@dataclass(frozen=True)
class Body:
    """A subprogram that a loop or a branch runs."""

    takes: tuple[str, ...]
    """The names, within the subprogram, of the values that the step passes to it. The subprogram
    may read all other values too."""
    subprogram: int


@dataclass(frozen=True)
class Step:
    """A step of a continuation: a call of a NumPy function, or a loop or branch over
    subprograms."""

    op: str
    node: str
    function: str
    """The function's name in `FUNCTIONS`."""
    inputs: tuple[str, ...]
    """The names of the values that the step reads. In ``inputs`` and ``outputs``, an empty name
    stands for an absent value."""
    outputs: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bodies: tuple[Body, ...] = ()

    @property
    def title(self) -> str:
        """The op and the node, for messages."""
        return f"{self.op} {self.node}"


@dataclass(frozen=True)
class Rest(Generic[P]):
    """The continuation after the first subprogram of a program.

    Values have names: the program's inputs, the first subprogram's results, constants, and the
    results of steps.
    """

    returned: tuple[str, ...]
    """The names of the first subprogram's results."""
    constants: Mapping[str, Array]
    """Constants by name. The arrays are read-only."""
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    """The names of the last subprogram's outputs; if there are none, this subprogram does not
    run."""
    subprograms: tuple[P, ...]
    """The subprograms that steps run, followed by the last one, which may have a graph break
    itself."""

    def described(self) -> Iterator[tuple[str, P]]:
        """Yield a text that says where a subprogram runs, and the subprogram, for each
        subprogram."""
        for step in self.steps:
            for body in step.bodies:
                yield f"in {step.title}", self.subprograms[body.subprogram]
        titles = ", ".join(step.title for step in self.steps)
        yield f"after {titles or 'a size that is computed'}", self.subprograms[-1]

    def over(self, f: Callable[[P], Q]) -> Rest[Q]:
        """Return the same continuation with a function applied to each subprogram."""
        return self.of(map(f, self.subprograms))

    def of(self, subprograms: Iterable[Q]) -> Rest[Q]:
        """Return the same continuation with other subprograms."""
        known = self.returned, self.constants, self.steps, self.outputs
        return Rest(*known, tuple(subprograms))


FUNCTIONS: Mapping[str, Callable[..., Sequence[Value]]] = {
    **SEQUENCES,
    **MAPS,
    **CONTROL,
}
"""The functions of steps, by name. They take values, None for absent ones, and settings. The
functions of `CONTROL` also take functions that run bodies."""


NEW = frozenset(MAPS)
"""The names of functions that return new arrays."""


class StepObserver(Protocol):
    """A receiver of reports on the steps of a continuation."""

    def timed(self, key: int, kernel: str, node: str) -> AbstractContextManager[None]:
        """Measure the block, which runs the step with this key."""
        ...


@dataclass(frozen=True)
class Runner(Generic[R]):
    """A continuation that can be run."""

    rest: Rest[R]
    watch: StepObserver | None = None
    calls: Sequence[CallEvent] = ()

    def recorded(self, watch: StepObserver) -> Runner[R]:
        """Return a copy of the runner that reports its steps to ``watch``."""
        return replace(self, watch=watch)

    def run(
        self,
        names: Sequence[str],
        inputs: Mapping[str, Value],
        first: Sequence[Value],
        *,
        is_inner: bool = False,
    ) -> list[Value]:
        """Return the values with these names, computed from the program's inputs and its first
        subprogram's results.

        The caller may modify the values, unless ``is_inner`` marks a subprogram: its results may
        share memory with its inputs, with constants, and with each other. Raises TessellaError if a
        step or subprogram fails.
        """
        try:
            known = self._known(inputs, first)
            found = [*map(known.__getitem__, names)]
            if is_inner or self._apart.issuperset(names):
                return found
            return owned(found, inputs.values())
        except MemoryError as error:
            raise ResourceError(f"there is not enough memory: {error}") from error

    def _known(self, inputs: Mapping[str, Value], first: Sequence[Value]) -> Mapping[str, Value]:
        """Run all steps and the last subprogram, and return all values by name."""
        rest = self.rest
        known = {**rest.constants, **inputs}
        known.update(zip(rest.returned, first, strict=True))
        for step in rest.steps:
            known.update(zip(step.outputs, self._found(step, known), strict=False))
        if rest.outputs:
            known.update(zip(rest.outputs, rest.subprograms[-1].run(known), strict=True))
        return known

    def _found(self, step: Step, known: Mapping[str, Value]) -> Sequence[Value]:
        """Run a step, and return its results."""
        taken = [known[name] if name else None for name in step.inputs]
        if step.bodies:  # the subprograms of loops and branches report their own operations
            return _called(step, taken, [partial(self._inner, body, known) for body in step.bodies])
        if self.watch is None:
            return _called(step, taken)
        with self.watch.timed(id(step), step.function, step.node):
            return _called(step, taken)

    @cached_property
    def _apart(self) -> frozenset[str]:
        """The names of the steps' results that share memory with no other value that a caller may
        have."""
        steps = (step for step in self.rest.steps if step.function in NEW)
        return frozenset(name for step in steps for name in step.outputs)

    def _inner(
        self, body: Body, known: Mapping[str, Value], own: Sequence[Value]
    ) -> Sequence[Value]:
        """Run a subprogram of a step on the values ``own`` that the step passes to it, and return
        its results."""
        if len(own) != len(body.takes):
            raise ShapeError(
                "a graph has the wrong number of inputs",
                expected=str(len(own)),
                found=str(len(body.takes)),
            )
        inside = {**known, **dict(zip(body.takes, own, strict=True))}
        return self.rest.subprograms[body.subprogram].run(inside)


def _called(step: Step, *operands: Sequence[Any]) -> Sequence[Value]:
    try:
        found = FUNCTIONS[step.function](*operands, **step.settings)
        _check(step, found)
    except TessellaError as error:
        if error.where is None:
            error.at(_where(step))
        raise
    except MemoryError:
        raise
    except Exception as error:
        if is_of_handler(error):
            raise
        raise ExecutionError(
            f"a step raised {type(error).__name__}: {error}", where=_where(step)
        ) from error
    return found


def _where(step: Step) -> str:
    return f"node {step.node!r} ({step.op})"


def _check(step: Step, found: Sequence[Value]) -> None:
    """Raise ExecutionError unless a function has returned at least the declared number of results,
    all of them arrays, lists of arrays or None."""
    if len(found) < len(step.outputs):
        raise ExecutionError(
            "a step gives fewer values than are read",
            expected=str(len(step.outputs)),
            found=str(len(found)),
        )
    for value in found:
        if type(value) is not np.ndarray and not is_value(value):
            wrong = type(value).__name__
            raise ExecutionError("a step returns neither an array nor a sequence", found=wrong)
