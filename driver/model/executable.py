"""A program of a model, and what it was compiled for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

import numpy.typing as npt

from tessella.driver.model.subprograms import RunningRest, S
from tessella.driver.specialise.key import Key
from tessella.runtime.artifact import CompiledSubprogram
from tessella.runtime.model import Out
from tessella.runtime.program import Program
from tessella.runtime.rest import Rest, Step
from tessella.support.collector import collect_many
from tessella.support.errors import UnknownValueError

if TYPE_CHECKING:
    from tessella.driver.build.build import StagedProgram
    from tessella.driver.build.run_passes import PassObserver
    from tessella.runtime.events import Work
    from tessella.runtime.explain_types import PythonStep
    from tessella.runtime.explanation import Explanation

# Functions import the compiler when they need it: a program from disk does not need it.

Array = npt.NDArray[Any]


@dataclass
class Executable(Generic[S]):
    """A program, and what it was compiled for."""

    key: Key
    program: Program
    timings: Mapping[str, float]
    """Seconds of each compilation step."""
    lower: Callable[[PassObserver | None], StagedProgram]
    """A function that lowers the program again and returns its stages; it reports each pass to the
    observer, if one is given. For a program without a source, it returns the known stages."""
    known: StagedProgram | None = None
    """The stages of the compilation; None if they are not cached."""
    rest: RunningRest[S] | None = None
    """The continuation, if the program has a graph break."""
    passed: frozenset[int] = frozenset()
    """Indices of the model's inputs that are not tensors, which the program does not take."""
    sizes: Sequence[str] = ()
    """A text for each dynamic dimension: whether it is symbolic or a number in the program, and
    why."""
    structure: Any = None
    """How the frontend assembles the results; None if it does not."""

    @property
    def lowered(self) -> StagedProgram:
        """The stages of the compilation, recreated if they are not cached."""
        if self.known is None:
            self.known = self.lower(None)
        return self.known

    def lowered_again(self, observer: PassObserver) -> StagedProgram:
        """Lower the program again, and return its stages. The observer sees the passes."""
        self.known = self.lower(observer)
        return self.known

    @cached_property
    def explanation(self) -> Explanation:
        """The explanation of the program. It is created on demand, as finding rejected candidates
        takes time."""
        from tessella.driver.explain.explain import explain

        values = [str(value) for value in self.key.values]
        return explain(self.lowered.stages, values, self.sizes)

    @property
    def full_explanation(self) -> Explanation:
        """The explanation of the program, with those of the most recently compiled subprograms."""
        explanation = self.explanation
        return explanation if self.rest is None else with_subprograms(explanation, self.rest)

    @cached_property
    def work(self) -> Mapping[str, Work]:
        """The work of each kernel by name: operations, bytes and estimated time, which profiles
        show."""
        from tessella.driver.explain.work import work_of

        return work_of(self.lowered.stages, self.lowered.target)

    @cached_property
    def _left_out(self) -> Collection[int]:
        """Indices of the model's inputs that the program does not take."""
        return self.passed.union(value.index for value in self.key.values)

    def run(self, arrays: Sequence[Array], threads: int, out: Out = ()) -> list[Array]:
        """Run the program and return its outputs. ``arrays`` has all inputs of the model, including
        those that the program does not take."""
        if left := self._left_out:
            arrays = [array for i, array in enumerate(arrays) if i not in left]
        return self.program.run(arrays, threads, out)

    def forget(self) -> None:
        """Drop the stages, which take more memory than the program."""
        if self.known is not None:
            self.known = None
            self.__dict__.pop("explanation", None)
            self.__dict__.pop("work", None)
            collect_many()  # The stages are one large reference cycle.


def compile_ahead(rest: RunningRest[S]) -> Sequence[str]:
    """Compile the subprograms of a continuation ahead of calls. Returns a text with the reason for
    each subprogram that cannot be compiled yet."""
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
    """Return a program's explanation with those of its most recently compiled subprograms."""
    others = [(where, each.explain()) for where, each in rest.models()]
    steps = python_steps(rest.program.rest.steps)
    return replace(explanation, continuation=steps, subprograms=others)


def python_steps(steps: Sequence[Step]) -> list[PythonStep]:
    """Return the steps after a graph break in the form in which an explanation lists them."""
    return [{"op": step.op, "node": step.node, "native": False} for step in steps]


def compiled_rest(rest: RunningRest[S], *, explained: bool = False) -> Rest[CompiledSubprogram]:
    """Return a continuation with the compiled models of its subprograms, in the form in which
    artifacts store it. ``explained`` adds the explanations of the models."""
    return rest.program.rest.over(
        lambda each: CompiledSubprogram(
            each.interface, [model.compiled(explained=explained) for model in each.models.made()]
        )
    )
