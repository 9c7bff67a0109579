"""Steps of programs that call NumPy kernels, and other Python functions on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

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
    """The specs of the outputs, on which other steps rely; None if any are acceptable."""

    def at(self, values: Mapping[str, int]) -> HostStep:
        """Return the step for values of the symbols. Symbols that the step defines remain."""
        settings = {name: _numbers(setting, values) for name, setting in self.settings.items()}
        specs = None if self.specs is None else tuple(spec.within(values) for spec in self.specs)
        return replace(self, settings=settings, specs=specs)


class HostCall:
    """A bound step that runs a NumPy kernel."""

    def __init__(self, step: HostStep) -> None:
        self.step = step

    def resize(self, step: Any, sized: Any, workspace: Any) -> None:
        """Change the step to values of the symbols."""
        assert isinstance(step, HostStep)
        self.step = step

    def run(self, values: list[Any]) -> None:
        """Call the kernel."""
        inputs = [values[i] for i in self.step.inputs]
        for i, result in zip(self.step.outputs, _host(self.step, inputs), strict=True):
            values[i] = result


def _numbers(setting: Any, values: Mapping[str, int]) -> Any:
    """Evaluate a setting of an op for values of the symbols."""
    if isinstance(setting, tuple):
        return tuple(_numbers(each, values) for each in cast(tuple[Any, ...], setting))
    return with_symbols(cast(Size, setting), values) if isinstance(setting, Expr) else setting


def _host(step: HostStep, inputs: Sequence[Array]) -> list[Array]:
    dtypes = None if step.specs is None else [spec.dtype for spec in step.specs]
    try:
        results = host.run(step.kernel, inputs, step.settings, dtypes)
    except ExecutionError as error:
        raise ExecutionError(
            error.what, where=f"node {step.node!r}", expected=error.expected, found=error.found
        ) from error
    except (TessellaError, MemoryError):
        raise
    except Exception as error:  # another package may have defined the function
        if is_of_handler(error):
            raise
        raise ExecutionError(
            f"the kernel {step.kernel!r} raised {type(error).__name__}: {error}",
            where=f"node {step.node!r}",
        ) from error
    if step.specs is not None and not _have_shapes(results, step.specs):
        raise ExecutionError(
            f"the kernel {step.kernel!r} returns other shapes than it must",
            where=f"node {step.node!r}",
            expected=", ".join(str(spec.shape) for spec in step.specs),
            found=", ".join(str(result.shape) for result in results),
        )
    return results


def _have_shapes(results: Sequence[Array], specs: Sequence[TensorSpec]) -> bool:
    """Return whether results have the shapes of specs. Symbols stand for any sizes, but the same
    symbol for equal ones."""
    if [result.shape for result in results] == [spec.shape for spec in specs]:
        return True
    found: dict[Size, int] = {}
    for result, spec in zip(results, specs, strict=True):
        if result.ndim != len(spec.shape):
            return False
        for n, size in zip(result.shape, spec.shape, strict=True):
            if (found.setdefault(size, n) if isinstance(size, Expr) else size) != n:
                return False
    return True
