"""Models that keep outputs as inputs of the next call, such as a decoder's cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from tessella.runtime.signature import ValueInfo
from tessella.support.errors import InputError

Array = npt.NDArray[Any]


class Runnable(Protocol):
    """The part of a model's interface that bound models use."""

    @property
    def inputs(self) -> tuple[ValueInfo, ...]: ...
    @property
    def outputs(self) -> tuple[ValueInfo, ...]: ...
    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> list[Array]: ...
    def converted(self, values: Mapping[str, npt.ArrayLike]) -> Mapping[str, Array]: ...
    def release(self) -> None: ...


class BoundModel:
    """A model with inputs that are outputs of the previous call.

    Kept arrays stay in the memory that the call wrote: no array is copied between calls, except for
    elements of sequences that do not change. Threads must not call the model concurrently.
    """

    def __init__(
        self, model: Runnable, kept: Mapping[str, str], state: Mapping[str, npt.ArrayLike]
    ) -> None:
        """Bind the inputs in ``kept``, each to the output that is its next value.

        ``state`` has their values for the first call. Raises InputError for unknown names and for
        types that do not match.
        """
        _check(model, kept)
        self._model = model
        self._kept = dict(kept)
        self._state: dict[str, Array] = {}
        self.reset(state)

    @property
    def state(self) -> Mapping[str, Array]:
        """The values of the kept inputs in the next call, by name. The arrays must not be
        modified."""
        return dict(self._state)

    def reset(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Set the kept inputs of the next call to the values in ``state``. Raises InputError unless
        ``state`` has exactly these inputs, with matching values."""
        if state.keys() != self._kept.keys():
            raise InputError(
                "the inputs that are kept need their first values",
                expected=", ".join(self._kept),
                found=", ".join(state) or "none",
                hint="a cache without entries is an array whose length is 0",
            )
        self._state = dict(self._model.converted(state))

    def release(self) -> None:
        """Free the memory that calls of the model reuse. Kept arrays stay."""
        self._model.release()

    def run(self, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Return the outputs that are not kept, by name, for the inputs that are not kept.

        If this raises, the kept arrays do not change.
        """
        wrong = [name for name in feeds if name in self._kept]
        if wrong:
            raise InputError(
                f"the input {wrong[0]!r} is kept from the call before",
                hint="reset() starts over",
            )
        results = self._model.run(None, {**feeds, **self._state})
        found = {
            info.name: result for info, result in zip(self._model.outputs, results, strict=True)
        }
        self._state = {name: found[output] for name, output in self._kept.items()}
        return {name: found[name] for name in found if name not in self._kept.values()}

    def __call__(self, **feeds: npt.ArrayLike) -> Any:
        """Return the output that is not kept, or a tuple of several outputs, for the inputs that
        are not kept, by name."""
        found = tuple(self.run(feeds).values())
        return found[0] if len(found) == 1 else found


def _check(model: Runnable, kept: Mapping[str, str]) -> None:
    inputs = {info.name: info for info in model.inputs}
    outputs = {info.name: info for info in model.outputs}
    for name, output in kept.items():
        if name not in inputs or output not in outputs:
            raise InputError(
                f"the model has no input {name!r} or no output {output!r}",
                expected=f"inputs {', '.join(inputs)}; outputs {', '.join(outputs)}",
                hint="bind({input: output}) takes an output as the next value of an input",
            )
        if inputs[name].dtype != outputs[output].dtype:
            raise InputError(
                f"the output {output!r} cannot be the next value of the input {name!r}",
                expected=inputs[name].dtype,
                found=outputs[output].dtype,
            )
