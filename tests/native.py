"""Running single ops natively, beside the interpreter that serves as oracle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tessella import targets
from tessella.dialects.graph import Graph, ValueInfo, finish_main, make_main, signature
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor, tensor_type, type_of
from tessella.dialects.nn.recurrent import ScanOp
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.runtime.elements import DTYPES, converted
from tessella.runtime.image import Image, Library
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.program import Step
from tessella.runtime.scan import Loop
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known_all
from tessella.support.elements import ELEMENTS
from tessella.support.sizes import Size, Symbol
from tests.codegen import aarch64

Array = npt.NDArray[Any]

RUNNABLE = [name for name in ("avx512", "avx2", "neon") if targets.can_run(targets.get(name))]
"""The targets whose code this machine runs, each with another vector width."""

EMULATED = ["neon"] if aarch64.AVAILABLE and "neon" not in RUNNABLE else []
"""Those that an emulator runs in tests with the fixture `emulation`."""

EVERYWHERE = [*RUNNABLE, *EMULATED]


def normal(*shape: int, seed: int = 0) -> Array:
    """N(0, 1), float32: the same numbers for the same shape and seed."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def sample(name: str, *shape: int, seed: int = 0) -> Array:
    """Random values of an element: N(0, 1), also as the parts of complex numbers; of integers, all
    of the range; of strings, a few words."""
    rng = np.random.default_rng(seed)
    element = ELEMENTS[name]
    if element.is_complex:
        return np.asarray(rng.standard_normal((*shape, 2)) @ [1, 1j]).astype(DTYPES[name])
    if element.is_float:
        return converted(np.asarray(rng.standard_normal(shape)), DTYPES[name])
    if element.kind == "string":
        return np.asarray(rng.choice(["", "a", "b c", "größe"], shape)).astype("T")
    if element.kind == "boolean":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    limits = np.iinfo(DTYPES[name])
    return np.asarray(rng.integers(limits.min, limits.max, shape, DTYPES[name], endpoint=True))


def known_shape(value: SSAValue | Attribute) -> tuple[int, ...]:
    """The shape of a tensor value or type in numbers."""
    return known_all(shape_of(value))


class GraphBuilder:
    """Builds the `nn` module of a small program."""

    def __init__(self, **inputs: Array | Tensor) -> None:
        """The inputs are arrays like these, or of these types."""
        self.weights = WeightStore()
        types = [x if isinstance(x, TensorType) else type_of(x) for x in inputs.values()]
        self.main = make_main(list(inputs), types)
        self.block = self.main.body.block
        """Where ops are added: another one while a function is made."""
        self.functions: list[FuncOp] = []
        self.inputs: dict[str, SSAValue] = dict(zip(inputs, self.block.args, strict=True))

    def weight(self, array: Array, name: str = "w") -> SSAValue:
        """A weight."""
        op = WeightOp(self.weights.add(name, array), type_of(array))
        self.block.add_op(op)
        return op.res

    def op(
        self, kind: type[NnOp], operands: Sequence[SSAValue | Operation], **settings: Any
    ) -> SSAValue:
        """An op; its first result."""
        op = kind.make(operands, **settings)
        self.block.add_op(op)
        return op.results[0]

    def scan(
        self,
        operands: Sequence[SSAValue],
        loop: Loop,
        body: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """A loop around a function with the ops of ``body``; its results."""
        sequences = range(loop.carried, loop.carried + loop.scanned)
        types = [tensor_type(value) for value in operands]
        length = types[loop.carried].get_shape()[:1] if loop.scanned else ()
        for i in sequences:
            types[i] = tensor(types[i].element_type, types[i].get_shape()[1:])
        outer, self.block = self.block, Block(arg_types=types)
        results = body(self.block.args)
        self.block.add_op(ReturnOp(*results))
        given = [tensor_type(value) for value in results]
        name, region = f"step_{len(self.functions)}", Region(self.block)
        self.functions.append(FuncOp(name, (types, given), region))
        self.block = outer
        stacked = [tensor(t.element_type, (*length, *t.get_shape())) for t in given[loop.carried :]]
        op = ScanOp(name, operands, [*given[: loop.carried], *stacked], loop)
        self.block.add_op(op)
        return op.results

    def graph(self, *results: SSAValue) -> Graph:
        """The finished program."""
        finish_main(self.main, [f"y{i}" for i in range(len(results))], results)
        return Graph(ModuleOp([*self.functions, self.main]), self.weights)


class FixedSource:
    """A source with one graph, made anew each time."""

    fingerprint: str | None = None
    determining: Sequence[str] = ()
    symbols: Sequence[Symbol] = ()

    def __init__(self, make: Callable[[], Graph]) -> None:
        self._make = make
        inputs, outputs = signature(make().module)
        self.inputs: Sequence[ValueInfo] = inputs
        self.outputs: Sequence[ValueInfo] = outputs
        self.stage = "nn"

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
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
    assert not (native and in_numpy(model)), model.explain()
    return model


def in_numpy(model: Model) -> Sequence[Step]:
    """The steps of a model's latest program that are no native code. An explanation would also find
    what else they might have been, which takes longer than to compile them."""
    latest = model._table.programs.latest()
    assert latest is not None, "the model has no program yet"
    return [step for step in latest.program.steps if not isinstance(step, NativeStep)]


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


@dataclass(frozen=True)
class OneOp:
    """An op on arrays."""

    kind: type[NnOp]
    operands: Sequence[Array]
    settings: Mapping[str, Any]
    constants: Sequence[int]
    """The operands that are weights."""


def one_op(
    kind: type[NnOp], *operands: Array, constants: Sequence[int] = (), **settings: Any
) -> OneOp:
    """An op for `check_ops`."""
    return OneOp(kind, operands, settings, constants)


def check_ops(
    *ops: OneOp, target: str | None = None, rtol: float = 1e-4, atol: float = 1e-5
) -> Model:
    """`check` for a program of ops that have nothing in common but the inputs that are one array:
    what compiling a program takes, they take once."""
    arrays = {id(a): a for op in ops for a in op.operands}
    names = {at: f"x{number}" for number, at in enumerate(arrays)}
    given = {id(a) for op in ops for i, a in enumerate(op.operands) if i not in op.constants}
    inputs = {names[at]: arrays[at] for at in names if at in given}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        results: list[SSAValue] = []
        for number, op in enumerate(ops):
            values = [
                g.weight(a, f"w{number}.{i}") if i in op.constants else g.inputs[names[id(a)]]
                for i, a in enumerate(op.operands)
            ]
            results.append(g.op(op.kind, values, **op.settings))
        return g.graph(*results)

    return check(make, inputs, target=target, rtol=rtol, atol=atol)


def calls(run: Callable[[], object]) -> int:
    """Return how many Python functions are called. Comprehensions, which are functions until Python
    3.12, do not count."""
    found: list[str] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_name not in ("<listcomp>", "<setcomp>", "<dictcomp>"):
            found.append(event)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found.count("call")


class Placed(Library):
    """Code that is somewhere already: every function is at one address."""

    def __init__(self, at: int) -> None:
        super().__init__(Image(b"", {}, {}))
        self._at = at

    def address(self, name: str) -> int:
        """The address."""
        return self._at
