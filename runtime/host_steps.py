"""Steps of programs that call NumPy kernels, and other Python functions on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella.runtime import host
from tessella.runtime.specs import TensorSpec
from tessella.support.errors import ExecutionError, TessellaError
from tessella.support.foreign import is_of_handler
from tessella.support.sizes import Expr, Size, with_symbols

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class HostStep:
    """A step that calls a NumPy kernel, or another Python function on arrays."""

    kernel: str
    """The kernel's name in ``host.KERNELS``."""
    node: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    settings: Mapping[str, Any]
    specs: tuple[TensorSpec, ...] | None = None
    """The shapes and dtypes that the outputs must have, as other steps rely on them; None if any
    are acceptable."""

    @cached_property
    def dtypes(self) -> Sequence[np.dtype[Any]] | None:
        """The dtypes of the outputs."""
        return None if self.specs is None else [spec.dtype for spec in self.specs]

    @cached_property
    def shapes(self) -> Sequence[tuple[int, Sequence[tuple[int, Size]]]]:
        """The shapes of the outputs: the number of each output, and its sizes by axis."""
        return [(i, [*enumerate(spec.shape)]) for i, spec in enumerate(self.specs or ())]

    def at(self, values: Mapping[str, int]) -> HostStep:
        """Return the step for values of the symbols. Symbols that the step defines remain."""
        settings = {name: _numbers(setting, values) for name, setting in self.settings.items()}
        specs = None if self.specs is None else tuple(spec.within(values) for spec in self.specs)
        return replace(self, settings=settings, specs=specs)


class HostCall:
    """A bound step that runs a NumPy kernel."""

    def __init__(self, step: HostStep) -> None:
        self.step = step
        self._outputs = [*enumerate(step.outputs)]

    def resize(self, step: Any, sized: Any, workspace: Any) -> None:
        """Replace the step by one for other values of the symbols."""
        assert isinstance(step, HostStep)
        self.step = step

    def run(self, values: list[Any]) -> None:
        """Call the kernel."""
        inputs = [*map(values.__getitem__, self.step.inputs)]
        results = _host(self.step, inputs)
        for number, i in self._outputs:
            values[i] = results[number]


def _numbers(setting: Any, values: Mapping[str, int]) -> Any:
    """Evaluate a setting of an op for values of the symbols."""
    if isinstance(setting, tuple):
        return tuple(_numbers(each, values) for each in cast(tuple[Any, ...], setting))
    return with_symbols(cast(Size, setting), values) if isinstance(setting, Expr) else setting


def _host(step: HostStep, inputs: Sequence[Array]) -> list[Array]:
    try:
        results = host.run(step.kernel, inputs, step.settings, step.dtypes)
    except TessellaError as error:
        if error.where is None:
            error.at(f"node {step.node!r}")
        raise
    except MemoryError:
        raise
    except Exception as error:  # another package may have defined the function
        if is_of_handler(error):
            raise
        raise ExecutionError(
            f"the kernel {step.kernel!r} raised {type(error).__name__}: {error}",
            where=f"node {step.node!r}",
        ) from error
    if len(results) != len(step.outputs) or not _have_shapes(results, step):
        raise ExecutionError(
            f"the kernel {step.kernel!r} returns other shapes than it must",
            where=f"node {step.node!r}",
            expected=", ".join(str(spec.shape) for spec in step.specs or ())
            or f"{len(step.outputs)} of any shape",
            found=", ".join(str(result.shape) for result in results),
        )
    return results


def _have_shapes(results: Sequence[Array], step: HostStep) -> bool:
    """Return whether results have the shapes of a step's outputs. Symbols stand for any sizes, but
    the same symbol for equal ones."""
    found: dict[Size, int] = {}
    for i, sizes in step.shapes:
        shape = results[i].shape
        if len(shape) != len(sizes):
            return False
        for axis, size in sizes:
            n = shape[axis]
            if (found.setdefault(size, n) if isinstance(size, Expr) else size) != n:
                return False
    return True
