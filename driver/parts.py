"""Running what follows the first part of a program: steps in NumPy, and parts that are compiled for
what the steps found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy.typing as npt

from tessella.driver.programs import ProgramTable
from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import OptionError, ResourceError

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Part, Rest, Source

Array = npt.NDArray[Any]


class Runs(Protocol):
    """What runs a part: a model."""

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> Sequence[Array]:
        """Its outputs for inputs by name."""
        ...


M = TypeVar("M", bound=Runs)

_MOST = 4
"""Models of a part, one for each set of types of its inputs. Nearly all parts have one."""


class RunningPart(Generic[M]):
    """A part, compiled by ``make`` for each set of types of its inputs."""

    def __init__(self, part: Part, make: Callable[[Source], M]) -> None:
        self._part = part
        self._make = make
        self.models: ProgramTable[M] = ProgramTable(_MOST)

    def run(self, values: Mapping[str, Array]) -> Sequence[Array]:
        """The part's outputs. Raises TessellaError."""
        part = self._part
        infos = tuple(_info(name, values[name], name in part.varying) for name in part.inputs)
        model = self.models.get(infos, lambda: self._make(part.source(infos)))
        return model.run(None, {name: values[name] for name in part.inputs})


class RunningRest(Generic[M]):
    """What follows the first part of a program."""

    def __init__(self, rest: Rest, make: Callable[[Source], M]) -> None:
        self._rest = rest
        self._bodies = [[RunningPart(part, make) for part in step.parts] for step in rest.steps]
        self._part = RunningPart(rest.part, make)

    def run(self, inputs: Mapping[str, Array], first: Sequence[Array]) -> dict[str, Array]:
        """All values by name, from the program's inputs and the results of its first part. Raises
        TessellaError."""
        try:
            return self._run({**self._rest.constants, **inputs}, first)
        except MemoryError as error:
            raise ResourceError(f"there is not enough memory: {error}") from error

    def _run(self, known: dict[str, Array], first: Sequence[Array]) -> dict[str, Array]:
        known |= zip(self._rest.returned, first, strict=True)
        for step, bodies in zip(self._rest.steps, self._bodies, strict=True):
            known |= zip(step.outputs, step.run(known, [body.run for body in bodies]), strict=False)
        if self._rest.part.outputs:
            known |= zip(self._rest.part.outputs, self._part.run(known), strict=True)
        return known

    def models(self) -> Iterator[tuple[str, M]]:
        """What was compiled last of each part, and what it is."""
        for step, bodies in zip(self._rest.steps, self._bodies, strict=True):
            found = (body.models.latest() for body in bodies)
            yield from ((f"in {step.title}", model) for model in found if model is not None)
        latest = self._part.models.latest()
        if latest is not None:
            titles: Sequence[str] = [step.title for step in self._rest.steps]
            yield f"after {', '.join(titles) or 'what it is made for'}", latest


def _info(name: str, array: Array, varies: bool) -> ValueInfo:
    symbols = (f"{name}:{axis}" for axis in range(array.ndim))
    return ValueInfo(name, dtype_name(array.dtype), tuple(symbols) if varies else array.shape)


def whole(graph: Graph) -> Graph:
    """The program. Raises OptionError where it is only the first part of one."""
    if graph.rest is not None:
        steps = ", ".join(step.title for step in graph.rest.steps)
        raise OptionError(
            "the model's program has several parts, as shapes depend on what it computes: it runs "
            "where it is compiled",
            found=f"a cut at {steps or 'a size that is computed'}",
            hint="`tessella run` runs it; model.explain() tells of all parts after a call",
        )
    return graph
