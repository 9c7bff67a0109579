"""Random valid ONNX graphs, grown node by node, each of which is computed as soon as it is there.

A node is kept where its results are of a moderate size, and where ``onnx.reference`` and ONNX
Runtime agree about them, or ONNX Runtime has no such node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.elements import CODES, FLOATS, INTEGERS, LIMITS, TINY, Array, rounded, typed, wide
from tests.fuzz.oracles import WideNode, node_model, runtime_results
from tests.fuzz.rounding import Noise, least
from tests.generators.choices import Choices

OPSETS = (9, 11, 13, 14, 17, 18, 19, 20, 21, 21, 22, 23, 24, 24, 26, 26, 28)
ORT_OPSET = 26
"""The newest op set that ONNX Runtime knows."""
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
"""Around the numbers of lanes, and odd."""
MOST_ELEMENTS = 2500
TRIES = 12
"""Nodes that are tried for each one that is wanted."""

Wanted = Callable[[Array], bool]


def has_nan(a: Array) -> bool:
    """Return whether there is a NaN among the numbers."""
    return bool(np.isnan(a).any())


def has_large(a: Array) -> bool:
    """Return whether there is an integer whose powers and sums leave the range."""
    return a.dtype.kind in "iu" and bool((np.abs(a.astype(np.float64)) > 1000).any())


def has_infinite(a: Array) -> bool:
    """Return whether there is a number that is not finite."""
    return not np.isfinite(a).all()


class NoFitError(Exception):
    """A node cannot be drawn from what there is."""


@dataclass(frozen=True)
class Row:
    """An op of the table: how its operands are drawn, and what its attributes may be."""

    op: str
    draw: Callable[[Draft], None]
    attributes: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    outputs: int = 1
    exact: bool = False
    """True if it does not round: it moves, compares or picks elements."""
    inside: bool = False
    """True if its integers are rounded from floats that may be stored in a narrow element."""
    of_shape: bool = False
    """True if it reads the shape of its operand alone."""
    unclear: Wanted | None = None
    """Operands that oracles treat in other ways: docs/operators.md says what ours are."""
    epsilon: float = 0.0
    """Of the type in which the oracle computes, where it is less precise than results."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph, with its numbers."""

    name: str
    code: int
    array: Array
    known: bool = False
    """True if constants, and the shapes of inputs, determine it: integers alone, so that no errors
    are put into it."""


@dataclass(frozen=True)
class Step:
    """A node, and how it is computed."""

    node: onnx.NodeProto
    row: Row
    run: WideNode
    codes: tuple[int, ...]
    """The types of its results."""
    fixed: frozenset[str]
    """Operands that are settings: no error is put into them."""


@dataclass
class Case:
    """A model, what it is run with, and what it should give."""

    opset: int
    inputs: dict[str, tuple[int, Array]]
    weights: dict[str, tuple[int, Array]]
    steps: list[Step]
    results: list[tuple[str, int]]
    symbolic: frozenset[tuple[str, int]] = frozenset()
    """Dimensions of inputs that have a name in place of a size."""
    stored: float = 0.0
    """The distance from 1 to the next number of the element that floats are stored in, where it is
    not their own."""

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs, in their types."""
        return {name: typed(array, code) for name, (code, array) in self.inputs.items()}

    def model(self) -> onnx.ModelProto:
        """The case as ONNX has it."""
        infos = [self._info(name, *each) for name, each in self.inputs.items()]
        results = [helper.make_tensor_value_info(n, code, None) for n, code in self.results]
        tensors = [
            numpy_helper.from_array(typed(array, code), name)
            for name, (code, array) in self.weights.items()
        ]
        nodes = [step.node for step in self.steps]
        graph = helper.make_graph(nodes, "case", infos, results, tensors)
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _info(self, name: str, code: int, array: Array) -> onnx.ValueInfoProto:
        shape = [
            f"{name}_{d}" if (name, d) in self.symbolic else n for d, n in enumerate(array.shape)
        ]
        return helper.make_tensor_value_info(name, code, shape)

    def run(self, noise: Noise) -> list[Array]:
        """The results with errors put in."""
        leaves = self.inputs | self.weights
        fixed = {name for step in self.steps for name in step.fixed}
        values = {n: a if n in fixed else noise(a, self.stored) for n, (_, a) in leaves.items()}
        codes = {n: code for n, (code, _) in leaves.items()}
        for step in self.steps:
            moved = {
                n: values[n]
                if step.row.exact or n in step.fixed
                else noise(values[n], FLOATS.get(codes[n], 0.0))
                for n in step.node.input
                if n
            }
            results = step.run(moved)
            magnitude = least([*moved.values(), *results])
            for name, code, y in zip(step.node.output, step.codes, results, strict=True):
                values[name] = self._result(noise, step, rounded(y, code), code, magnitude)
                codes[name] = code
        return [values[name] for name, _ in self.results]

    def _result(self, noise: Noise, step: Step, y: Array, code: int, magnitude: float) -> Array:
        if step.row.exact:
            return noise(y, self.stored)
        if step.row.inside and y.dtype.kind in "iu":
            ends = np.iinfo(y.dtype)
            moved = noise(y.astype(np.float64), self.stored)
            return np.clip(np.rint(moved), ends.min, ends.max).astype(y.dtype)
        epsilon = max(FLOATS.get(code, 0.0), step.run.epsilon, step.row.epsilon, self.stored)
        return noise(y, epsilon, magnitude, TINY.get(code, 0.0))

    def up_to(self, count: int) -> Case:
        """The first steps as a model, without what their last one does not need."""
        results = list(
            zip(self.steps[count - 1].node.output, self.steps[count - 1].codes, strict=False)
        )
        wanted, kept = {name for name, _ in results}, list[Step]()
        for step in reversed(self.steps[:count]):
            if wanted & set(step.node.output):
                kept.insert(0, step)
                wanted |= set(step.node.input)
        inputs = {n: v for n, v in self.inputs.items() if n in wanted}
        weights = {n: v for n, v in self.weights.items() if n in wanted}
        return Case(self.opset, inputs, weights, kept, results, self.symbolic, self.stored)


class Sketch:
    """A graph on its way."""

    def __init__(self, random: Random, rows: Sequence[Row]) -> None:
        self.random = random
        self.rows = rows
        self.opset = random.choice(OPSETS)
        floats = [TensorProto.FLOAT] * 7 + [*FLOATS]
        self.theme = random.choice(floats if random.random() < 0.7 else CODES)
        """The element type of most values."""
        self.odd = random.random() < 0.12
        """True if there are NaN, infinities and numbers at the ends of ranges."""
        self.sizes = (*SIZES, 0) if random.random() < 0.1 else SIZES
        self.inputs: dict[str, tuple[int, Array]] = {}
        self.weights: dict[str, tuple[int, Array]] = {}
        self.values: list[Value] = []
        self.steps: list[Step] = []

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """The shape of a new tensor."""
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 4)) if rank is None else rank
        sizes = [self.random.choice(self.sizes) for _ in range(rank)]
        while math.prod(sizes) > MOST_ELEMENTS:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def numbers(self, shape: Sequence[int], code: int) -> Array:
        """Random numbers, as the element type has them."""
        rng = np.random.default_rng(self.random.getrandbits(32))
        if code == TensorProto.BOOL:
            return np.asarray(rng.integers(0, 2, shape), np.bool_)
        if code not in FLOATS:
            info = np.iinfo(helper.tensor_dtype_to_np_dtype(code))
            array = rng.integers(-9 if info.min else 0, 10, shape).astype(info.dtype)
            ends = np.array([info.min, info.max, 0, 1], info.dtype)
            return np.asarray(_strewn(rng, array, ends) if self.odd else array)
        kind = self.random.randrange(4)
        array = rng.integers(-4, 5, shape) if kind == 0 else rng.standard_normal(shape)
        array = np.asarray(array * (10 if kind == 1 else 1), np.float64)
        ends = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, 1e-40])
        return rounded(_strewn(rng, array, ends) if self.odd else array, code)

    def leaf(self, code: int, array: Array, *, constant: bool) -> Value:
        """A new input or weight."""
        table, letter = (self.weights, "w") if constant else (self.inputs, "x")
        known = constant and code in INTEGERS
        value = Value(f"{letter}{len(table)}", code, rounded(array, code), known)
        table[value.name] = code, value.array
        return value

    def shape_of(self, value: Value) -> Value:
        """A new node `Shape`."""
        shape = Value(
            f"s{len(self.values)}", TensorProto.INT64, np.asarray(value.array.shape), True
        )
        node = helper.make_node("Shape", [value.name], [shape.name])
        run = WideNode(node, self.opset)
        self.steps.append(Step(node, SHAPE, run, (shape.code,), frozenset()))
        self.values.append(shape)
        return shape

    def add(self) -> bool:
        """Try to add a node; whether it was added."""
        row = self.random.choice(self.rows)
        before = dict(self.inputs), dict(self.weights), list(self.values), list(self.steps)
        try:
            draft = Draft(self, row)
            row.draw(draft)
            step, results = draft.finish()
        except NoFitError:
            self.inputs, self.weights, self.values, self.steps = before
            return False
        self.steps.append(step)
        self.values += results
        return True

    def finish(self) -> Case:
        """The graph with some results: those of the last node, and others."""
        made = [value for value in self.values if value.name.startswith("v")]
        last = {name for name in self.steps[-1].node.output if name}
        others = self.random.sample(made, min(len(made), self.random.choice((0, 0, 1, 2))))
        names = dict.fromkeys([v for v in made if v.name in last] + others)
        results = [(value.name, value.code) for value in names]
        dims = [(n, d) for n, (_, a) in self.inputs.items() for d in range(a.ndim)]
        symbolic = frozenset(d for d in dims if self.random.random() < 0.3)
        if self.random.random() < 0.8:
            symbolic = frozenset()
        return Case(self.opset, self.inputs, self.weights, self.steps, results, symbolic)


def _strewn(rng: np.random.Generator, array: Array, ends: Array) -> Array:
    return np.where(rng.random(array.shape) < 0.15, rng.choice(ends, array.shape), array)


SHAPE = Row("Shape", lambda d: None, exact=True, of_shape=True)


class Draft(Choices):
    """A node on its way: the table's rows draw its operands and attributes."""

    def __init__(self, sketch: Sketch, row: Row) -> None:
        super().__init__(sketch.random)
        self.sketch = sketch
        self.row = row
        try:
            self.schema = onnx.defs.get_schema(row.op, sketch.opset)
        except onnx.defs.SchemaError as error:
            raise NoFitError from error
        self.opset = sketch.opset
        self.inputs: list[str] = []
        self.operands: list[Value] = []
        self.fixed: set[str] = set()
        self.bound: dict[str, int] = {}
        """The element type that each of the schema's type variables has got."""
        self.attributes: dict[str, Any] = {}
        self.outputs = row.outputs
        for name, choices in row.attributes.items():
            known = self.schema.attributes.get(name)
            if known is not None and (known.required or self.chance(60)):
                self.attributes[name] = self.one_of(*choices)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Return the shape of a new tensor."""
        return self.sketch.shape(rank)

    def require(self, condition: bool) -> None:
        """Give the node up where this does not hold."""
        if not condition:
            raise NoFitError

    # ** types **

    @property
    def formal(self) -> Any:
        """Return the schema's entry for the next operand."""
        return self.schema.inputs[min(len(self.inputs), len(self.schema.inputs) - 1)]

    def codes(self) -> list[int]:
        """The types that the next operand may have."""
        formal = self.formal
        if formal.type_str in self.bound:
            return [self.bound[formal.type_str]]
        codes = [code for code in CODES if _type_name(code) in formal.types]
        self.require(bool(codes))
        return codes

    def code(self) -> int:
        """A type for the next operand: the one of most values, if it may have that."""
        codes = self.codes()
        if self.sketch.theme in codes and self.chance(80):
            return self.sketch.theme
        return self.one_of(*codes)

    def bind(self, code: int) -> None:
        """Fix the type of the next operand."""
        self.bound[self.formal.type_str] = code

    # ** operands **

    def _append(self, value: Value) -> Array:
        self.bind(value.code)
        self.inputs.append(value.name)
        self.operands.append(value)
        return value.array

    def pick(
        self,
        wanted: Wanted = lambda a: True,
        shape: Callable[[], Sequence[int]] | None = None,
        numbers: Callable[[Array], Array] = lambda a: a,
    ) -> Array:
        """The next operand: a value that is wanted, or a new one of a shape; its numbers."""
        codes = self.codes()
        found = [v for v in self.sketch.values if v.code in codes and wanted(v.array)]
        if found and self.chance(90):
            return self._append(self.one_of(*found, *found[-2:], *found[-1:]))
        made = self.shape if shape is None else shape
        return self.new(made(), numbers, reused=True)

    def new(
        self,
        shape: Sequence[int],
        numbers: Callable[[Array], Array] = lambda a: a,
        *,
        reused: bool = False,
    ) -> Array:
        """The next operand: an input or a weight; with ``reused`` other nodes may take it too."""
        self.require(math.prod(shape) <= MOST_ELEMENTS)
        code = self.code()
        array = numbers(self.sketch.numbers(shape, code))
        value = self.sketch.leaf(code, array, constant=self.chance(35 if reused else 65))
        if reused:
            self.sketch.values.append(value)
        return self._append(value)

    def constant(self, array: Any, code: int | None = None, *, rounds: bool = False) -> None:
        """The next operand: a weight, with the type that the schema says. It is a setting, unless
        results hang on how it ``rounds``."""
        code = self.code() if code is None else code
        # an input that is read by its value is as good
        value = self.sketch.leaf(code, np.asarray(array), constant=not self.chance(15))
        if not rounds:
            self.fixed.add(value.name)
        self._append(value)

    def setting(self, array: Any, wanted: Wanted) -> Array:
        """The next operand, int64: a weight, or what is known before the graph runs."""
        values = self.sketch.values
        found = [v for v in values if v.known and v.code == TensorProto.INT64 and wanted(v.array)]
        shapes = [v for v in values if v.array.ndim and wanted(np.asarray(v.array.shape))]
        if not (found or shapes) or self.chance(35):
            self.constant(np.asarray(array, np.int64), TensorProto.INT64)
            return self.operands[-1].array
        value = self.one_of(*found) if found else self.sketch.shape_of(self.one_of(*shapes))
        self.fixed.add(value.name)
        return self._append(value)

    def skip(self) -> None:
        """Leave the next operand out."""
        self.inputs.append("")

    def set(self, name: str, value: Any) -> None:
        """An attribute."""
        self.attributes[name] = value

    def listed(self, name: str, values: Sequence[int]) -> None:
        """An attribute, or in later versions the next operand."""
        if name in self.schema.attributes:
            self.set(name, list(values))
        else:
            self.constant(np.asarray(values, np.int64), TensorProto.INT64)

    # ** the node **

    def finish(self) -> tuple[Step, list[Value]]:
        """The node with its results. Raises NoFitError where it is not kept."""
        unclear = self.row.unclear
        self.require(unclear is None or not any(unclear(v.array) for v in self.operands))
        names = list(self.inputs)
        while names and not names[-1]:
            names.pop()
        count = len(self.sketch.values) + len(self.sketch.weights)
        results = [f"v{count}_{i}" for i in range(self.outputs)]
        node = helper.make_node(self.row.op, names, results)
        for name, value in self.attributes.items():
            kind: Any = self.schema.attributes[name].type
            node.attribute.append(helper.make_attribute(name, value, attr_type=kind.value))
        types = {v.name: (v.code, v.array.shape) for v in self.operands}
        model = node_model(node, types, self.opset)
        codes, shapes = _inferred(model)
        feeds = {v.name: v.array for v in self.operands}
        try:
            run = WideNode(node, self.opset)
            arrays = run(feeds)
        except Exception as error:  # what it does not know, it raises in many ways
            raise NoFitError(repr(error)) from error
        self._check(model, codes, shapes, arrays)
        arrays = [rounded(y, code) for y, code in zip(arrays, codes, strict=True)]
        step = Step(node, self.row, run, codes, frozenset(self.fixed))
        known = self.row.of_shape or all(v.known for v in self.operands)
        return step, [
            Value(name, code, array, known and code in INTEGERS)
            for name, code, array in zip(results, codes, arrays, strict=True)
        ]

    def _check(
        self,
        model: onnx.ModelProto,
        codes: Sequence[int],
        shapes: Sequence[tuple[int | None, ...] | None],
        arrays: Sequence[Array],
    ) -> None:
        for y, code, shape in zip(arrays, codes, shapes, strict=True):
            fits = shape is None or _fits(y.shape, shape)
            self.require(fits and y.size <= 4 * MOST_ELEMENTS and code in CODES)
            if y.dtype.kind == "f" and not self.sketch.odd:
                self.require(bool(np.all(np.abs(y) < LIMITS[code])))
        feeds = {v.name: typed(v.array, v.code) for v in self.operands}
        found = runtime_results(model, feeds)
        if found is None:
            # it has fewer element types
            found = runtime_results(*_in_float32(model, feeds))
        for y, theirs, code in zip(arrays, found or (), codes, strict=bool(found)):
            self.require(_agree(y, wide(theirs), code))


_NAMES: dict[int, str] = {TensorProto.DOUBLE: "double", TensorProto.FLOAT: "float"}


def _type_name(code: int) -> str:
    return f"tensor({_NAMES.get(code) or TensorProto.DataType.Name(code).lower()})"


def _inferred(
    model: onnx.ModelProto,
) -> tuple[tuple[int, ...], list[tuple[int | None, ...] | None]]:
    try:
        made = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:
        raise NoFitError(repr(error)) from error
    types = [info.type.tensor_type for info in made.graph.output]
    shapes = [
        tuple(d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim)
        if t.HasField("shape")
        else None
        for t in types
    ]
    return tuple(t.elem_type for t in types), shapes


def _in_float32(
    model: onnx.ModelProto, feeds: Mapping[str, Array]
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.opset_import[0].version = min(made.opset_import[0].version, ORT_OPSET)
    for info in made.graph.input:
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
    return made, {
        n: wide(a).astype(np.float32) if a.dtype.kind in "fV" else a for n, a in feeds.items()
    }


def _fits(shape: tuple[int, ...], known: tuple[int | None, ...]) -> bool:
    return len(shape) == len(known) and all(
        b in (None, a) for a, b in zip(shape, known, strict=True)
    )


def _agree(ours: Array, theirs: Array, code: int) -> bool:
    """Return whether two oracles mean the same; how precise they are is found otherwise."""
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return False
    if ours.dtype.kind != "f":
        return bool(np.array_equal(ours, theirs))
    with np.errstate(all="ignore"):
        ours = rounded(ours, code)
        size = np.max(np.abs(ours), initial=0, where=np.isfinite(ours))
    near = max(1e-3, 8 * FLOATS[code])
    return bool(np.allclose(ours, theirs, rtol=near, atol=near * min(size, 1), equal_nan=True))


def draw_case(random: Random, rows: Sequence[Row], most: int = 30) -> Case:
    """A random graph of up to so many nodes; mostly fewer."""
    sketch = Sketch(random, rows)
    wanted = min(most, random.choice((1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30)))
    for _ in range(wanted * TRIES):
        sketch.add()
        if len(sketch.steps) == wanted:
            break
    while not sketch.steps:
        sketch.add()
    return sketch.finish()
