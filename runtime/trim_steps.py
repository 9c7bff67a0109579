"""Steps of programs that cut arrays to a computed size."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from tessella.runtime.host.movement import first_slices
from tessella.runtime.specs import TensorSpec
from tessella.support.errors import ExecutionError


@dataclass(frozen=True)
class TrimStep:
    """A step that defines a symbol: it takes the first slices of an array, as many as a computed
    count says."""

    node: str
    x: int
    count: int
    result: int
    spec: TensorSpec
    """The shape and the dtype of the result."""

    @property
    def kernel(self) -> str:
        """The name of the step's kernel in profiles and errors."""
        return "nn.trim"

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the values that the step reads."""
        return self.x, self.count

    @property
    def outputs(self) -> tuple[int, ...]:
        """The number of the value that the step computes."""
        return (self.result,)

    def at(self, values: Mapping[str, int]) -> TrimStep:
        """Return the step for values of the symbols. The symbol that the step defines remains."""
        return replace(self, spec=self.spec.within(values))


class TrimCall:
    """A step that cuts an array, ready to run."""

    def __init__(self, step: TrimStep, inner: Set[int]) -> None:
        """``inner`` are the numbers of the values that only native code reads."""
        self._node = step.node
        self._x, self._count, self._result = step.x, step.count, step.result
        self._is_inner = step.result in inner

    def resize(self, step: Any, sized: Any, workspace: Any) -> None:
        """Do nothing, as the step is the same for all values of the symbols."""

    def run(self, values: list[Any]) -> None:
        """Cut the array. Raises ExecutionError for a count that is out of range."""
        x, count = values[self._x], values[self._count].item()
        if self._is_inner and 0 <= count <= len(x):
            values[self._result] = x[:count]
            return
        try:
            values[self._result] = first_slices(x, count)
        except ExecutionError as error:
            raise error.at(f"node {self._node!r}") from None
