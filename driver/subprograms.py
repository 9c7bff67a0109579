"""Running programs that are cut: steps in NumPy, and subprograms that are compiled for what the
steps found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy.typing as npt

from tessella.driver.programs import ProgramTable
from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import OptionError, ResourceError

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Rest, Source, Subprogram

Array = npt.NDArray[Any]


class Runs(Protocol):
    """What runs a subprogram: a model."""

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> Sequence[Array]:
        """Its outputs for inputs by name."""
        ...


M = TypeVar("M", bound=Runs)

_MOST = 4
"""Models of a subprogram, one for each set of types of its inputs. Nearly all have one."""


class RunningSubprogram(Generic[M]):
    """A subprogram, compiled by ``make`` for each set of types of its inputs."""

    def __init__(self, subprogram: Subprogram, make: Callable[[Source], M]) -> None:
        self._subprogram = subprogram
        self._make = make
        self.models: ProgramTable[M] = ProgramTable(_MOST)

    def run(self, values: Mapping[str, Array]) -> Sequence[Array]:
        """The subprogram's outputs. Raises TessellaError."""
        subprogram = self._subprogram
        infos = tuple(
            _info(name, values[name], name in subprogram.varying) for name in subprogram.inputs
        )
        model = self.models.get(infos, lambda: self._make(subprogram.source(infos)))
        return model.run(None, {name: values[name] for name in subprogram.inputs})


class RunningRest(Generic[M]):
    """What follows the first subprogram of a program."""

    def __init__(self, rest: Rest, make: Callable[[Source], M]) -> None:
        self._rest = rest
        self._bodies = [
            [RunningSubprogram(subprogram, make) for subprogram in step.subprograms]
            for step in rest.steps
        ]
        self._subprogram = RunningSubprogram(rest.subprogram, make)

    def run(self, inputs: Mapping[str, Array], first: Sequence[Array]) -> dict[str, Array]:
        """All values by name, from the program's inputs and the results of its first subprogram.
        Raises TessellaError."""
        try:
            return self._run({**self._rest.constants, **inputs}, first)
        except MemoryError as error:
            raise ResourceError(f"there is not enough memory: {error}") from error

    def _run(self, known: dict[str, Array], first: Sequence[Array]) -> dict[str, Array]:
        known |= zip(self._rest.returned, first, strict=True)
        for step, bodies in zip(self._rest.steps, self._bodies, strict=True):
            known |= zip(step.outputs, step.run(known, [body.run for body in bodies]), strict=False)
        if self._rest.subprogram.outputs:
            known |= zip(self._rest.subprogram.outputs, self._subprogram.run(known), strict=True)
        return known

    def models(self) -> Iterator[tuple[str, M]]:
        """What was compiled last of each subprogram, and what it is."""
        for step, bodies in zip(self._rest.steps, self._bodies, strict=True):
            found = (body.models.latest() for body in bodies)
            yield from ((f"in {step.title}", model) for model in found if model is not None)
        latest = self._subprogram.models.latest()
        if latest is not None:
            titles: Sequence[str] = [step.title for step in self._rest.steps]
            yield f"after {', '.join(titles) or 'what it is made for'}", latest


def _info(name: str, array: Array, varies: bool) -> ValueInfo:
    symbols = (f"{name}:{axis}" for axis in range(array.ndim))
    return ValueInfo(name, dtype_name(array.dtype), tuple(symbols) if varies else array.shape)


def whole(graph: Graph) -> Graph:
    """The program. Raises OptionError where it is cut."""
    if graph.rest is not None:
        steps = ", ".join(step.title for step in graph.rest.steps)
        raise OptionError(
            "the model's program is cut, as shapes depend on what it computes: it runs where it is "
            "compiled",
            found=f"a cut at {steps or 'a size that is computed'}",
            hint="`tessella run` runs it; model.explain() tells of its subprograms after a call",
        )
    return graph
