"""Running single ops natively, beside the interpreter that serves as oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tessella import targets
from tessella.dialects.graph import Graph, ValueInfo, finish_main, make_main, signature
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import NnOp, type_of
from tessella.driver.compile import compile_source
from tessella.driver.model import Model
from tessella.runtime.weights import WeightStore

Array = npt.NDArray[Any]

RUNNABLE = [name for name in ("avx512", "avx2", "neon") if targets.can_run(targets.get(name))]
"""The targets whose code this machine runs, each with another vector width."""


def normal(*shape: int, seed: int = 0) -> Array:
    """N(0, 1), float32: the same numbers for the same shape and seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


class GraphBuilder:
    """Builds the `nn` module of a small program."""

    def __init__(self, **inputs: Array) -> None:
        self.weights = WeightStore()
        self.main = make_main(list(inputs), [type_of(a) for a in inputs.values()])
        self.inputs: dict[str, SSAValue] = dict(zip(inputs, self.main.body.block.args, strict=True))

    def weight(self, array: Array, name: str = "w") -> SSAValue:
        """A weight."""
        op = WeightOp(self.weights.add(name, array), type_of(array))
        self.main.body.block.add_op(op)
        return op.res

    def op(
        self, kind: type[NnOp], operands: Sequence[SSAValue | Operation], **settings: Any
    ) -> SSAValue:
        """An op; its first result."""
        op = kind.make(operands, **settings)
        self.main.body.block.add_op(op)
        return op.results[0]

    def graph(self, *results: SSAValue) -> Graph:
        """The finished program."""
        finish_main(self.main, [f"y{i}" for i in range(len(results))], results)
        return Graph(ModuleOp([self.main]), self.weights)


class FixedSource:
    """A source with one graph, made anew each time."""

    fingerprint: str | None = None

    def __init__(self, make: Callable[[], Graph]) -> None:
        self._make = make
        inputs, outputs = signature(make().module)
        self.inputs: Sequence[ValueInfo] = inputs
        self.outputs: Sequence[ValueInfo] = outputs
        self.stage = "nn"

    def graph(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        return self._make()


def build(
    make: Callable[[], Graph], target: str | None = None, places: Sequence[str] | None = None
) -> Model:
    """The compiled program."""
    return compile_source(FixedSource(make), target=target, places=places)


def check(
    make: Callable[[], Graph],
    inputs: Mapping[str, Array],
    *,
    target: str | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    native: bool = True,
) -> Model:
    """Assert that native code and the interpreter agree, and that no op ran in NumPy."""
    expected = interpret(make(), inputs)
    model = build(make, target)
    got = model.run(None, dict(inputs))
    for y, wanted in zip(got, expected, strict=True):
        assert y.dtype == wanted.dtype
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=rtol, atol=atol)
    kernels = {str(entry["kernel"]) for entry in model.explain().ops}
    assert not (native and "host" in kernels), model.explain()
    return model


def check_op(
    kind: type[NnOp],
    operands: Sequence[Array],
    *,
    constants: Sequence[int] = (),
    target: str | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    native: bool = True,
    **settings: Any,
) -> Model:
    """`check` for a program of one op; ``constants`` are the operands that are weights."""
    inputs = {f"x{i}": a for i, a in enumerate(operands) if i not in constants}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        values = [
            g.weight(a, f"w{i}") if i in constants else g.inputs[f"x{i}"]
            for i, a in enumerate(operands)
        ]
        return g.graph(g.op(kind, values, **settings))

    return check(make, inputs, target=target, rtol=rtol, atol=atol, native=native)
