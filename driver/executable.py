"""A program of a model, and what it is made for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

import numpy.typing as npt

from tessella.driver.key import Key
from tessella.driver.subprograms import RunningRest, S
from tessella.runtime.artifact import CompiledSubprogram
from tessella.runtime.model import Out
from tessella.runtime.program import Program
from tessella.runtime.rest import Rest, Step
from tessella.runtime.trimming import TRIMMING
from tessella.support.collector import collect_many
from tessella.support.errors import UnknownValueError

if TYPE_CHECKING:
    from tessella.driver.build import StagedProgram
    from tessella.runtime.events import Work
    from tessella.runtime.explain_types import PythonStep
    from tessella.runtime.explanation import Explanation

# the compiler is imported where it is needed: a program that is found on disk does without

Array = npt.NDArray[Any]


@dataclass
class Executable(Generic[S]):
    """A program, and what it is made for."""

    key: Key
    program: Program
    timings: Mapping[str, float]
    """Seconds that each step of its compilation took."""
    lower: Callable[[], StagedProgram]
    """Makes the stages again."""
    known: StagedProgram | None = None
    """The stages, if they are kept."""
    rest: RunningRest[S] | None = None
    """What follows, if the program is cut."""
    passed: frozenset[int] = frozenset()
    """The inputs that the program does not take as they are no tensors."""
    sizes: Sequence[str] = ()
    """What each dimension that the model leaves open is in the program, and why."""
    structure: object = None
    """How the frontend puts the results together, if it does."""

    @property
    def lowered(self) -> StagedProgram:
        """The stages, which are made again on demand if they are not kept."""
        if self.known is None:
            self.known = self.lower()
        return self.known

    @cached_property
    def explanation(self) -> Explanation:
        """Made on demand: the candidates that were not picked are found again."""
        from tessella.driver.explain import explain

        values = [str(value) for value in self.key.values]
        return explain(self.lowered.stages, values, self.sizes)

    @property
    def full_explanation(self) -> Explanation:
        """With that of the subprograms that were compiled last."""
        explanation = self.explanation
        return explanation if self.rest is None else with_subprograms(explanation, self.rest)

    @cached_property
    def work(self) -> Mapping[str, Work]:
        """What the kernels have to do, for profiles."""
        from tessella.driver.work import work_of

        return work_of(self.lowered.stages, self.lowered.target)

    @cached_property
    def _left_out(self) -> Collection[int]:
        """The inputs that the program does not take."""
        return self.passed.union(value.index for value in self.key.values)

    def run(self, arrays: Sequence[Array], threads: int, out: Out = ()) -> list[Array]:
        """The outputs of the program for all inputs of the model."""
        if left := self._left_out:
            arrays = [array for i, array in enumerate(arrays) if i not in left]
        return self.program.run(arrays, threads, out)

    def forget(self) -> None:
        """Keep no stages, which take more memory than the program."""
        if self.known is not None:
            self.known = None
            self.__dict__.pop("explanation", None)
            self.__dict__.pop("work", None)
            collect_many()  # they are one large cycle


def compile_ahead(rest: RunningRest[S]) -> Sequence[str]:
    """Compile what can be before a call; what cannot, and why."""
    missing: list[str] = []
    for where, subprogram in rest.subprograms():
        try:
            model = subprogram.ahead()
            if model is None:
                missing.append(f"what is {where} has types that only a call tells")
            else:
                model.prepare()
        except UnknownValueError as error:
            missing.append(f"what is {where} needs values: {error.what}")
    return missing


def with_subprograms(explanation: Explanation, rest: RunningRest[S]) -> Explanation:
    """That of a program, with those of its subprograms that were compiled last."""
    others = [(where, each.explain()) for where, each in rest.models()]
    steps = python_steps(rest.program.rest.steps)
    return replace(explanation, steps=steps, subprograms=others)


def python_steps(steps: Sequence[Step]) -> list[PythonStep]:
    """The steps after a graph break, as an explanation lists them."""
    return [
        {"op": step.op, "node": step.node, "native": step.function in TRIMMING} for step in steps
    ]


def compiled_rest(rest: RunningRest[S], *, explained: bool = False) -> Rest[CompiledSubprogram]:
    """What is compiled of subprograms, as it is stored."""
    return rest.program.rest.over(
        lambda each: CompiledSubprogram(
            each.interface, [model.compiled(explained=explained) for model in each.models.made()]
        )
    )
