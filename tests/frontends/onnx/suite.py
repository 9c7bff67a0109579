"""The official tests of ONNX: the runner of the onnx package on a backend, and the node cases."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test import BackendTest, runner
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from tessella.frontends.onnx.official import FAILING, RANDOM
from tests.fixtures.light import LIGHT_MODELS

Array = npt.NDArray[Any]

KEPT = Path(__file__).parents[3] / "build" / f"onnx-{onnx.__version__}-numpy-{np.__version__}"
"""The node suite of other runs: onnx computes its cases anew in each process, in five seconds."""

NETWORKS = frozenset(f"test_{name}" for name in LIGHT_MODELS)
"""The names of the tests of whole networks."""

SENTENCES = {
    name: sentence
    for sentences in FAILING.values()
    for sentence, names in sentences.items()
    for name in names.split()
}
"""The reason why a test does not pass, by its name."""


@cache
def node_cases() -> list[TestCase]:
    """The node suite, always with the same numbers."""
    try:
        return pickle.loads(KEPT.read_bytes())
    except FileNotFoundError:
        cases = load_model_tests(kind="node")
    KEPT.parent.mkdir(exist_ok=True)
    part = KEPT.with_name(f"{KEPT.name}.{os.getpid()}")
    part.write_bytes(pickle.dumps(cases))
    part.replace(KEPT)
    return cases


def _cases(kind: str) -> list[TestCase]:
    return node_cases() if kind == "node" else load_model_tests(kind=kind)


def runner_tests(
    backend: Any, tolerance: Callable[[TestCase], float] = lambda case: case.rtol
) -> Mapping[str, Callable[[], None]]:
    """The tests of the official runner on a backend for the CPU, by name. A test that is called
    raises an exception if it does not pass."""
    tolerances = {case.name: {"rtol": tolerance(case)} for case in node_cases()}
    with patch.object(runner, "load_model_tests", _cases):
        classes = BackendTest(backend, __name__, tolerances).test_cases.values()
    tests = ((name, made(name).debug) for made in classes for name in dir(made))
    return {name.removesuffix("_cpu"): test for name, test in tests if name.endswith("_cpu")}


def rounded_often(case: TestCase) -> float:
    """Return the tolerance of a node case in programs that round after other ops than the code that
    computed the expected values: two roundings of float16."""
    results = (y for _, wanted in calls_of(case)[1] for y in wanted)
    is_half = any(isinstance(y, np.ndarray) and y.dtype == np.float16 for y in results)
    return 2e-3 if is_half else case.rtol


def wrong(tests: Mapping[str, Callable[[], None]], names: Sequence[str]) -> list[str]:
    """Run tests by name. Return a line for each one that does not pass, unless the list of failing
    tests has it, and for each one that passes although the list has it, unless that may happen by
    chance."""
    if find_spec("PIL") is None:
        names = [name for name in names if not name.startswith("test_image_decoder")]
    return [line for name in names if (line := _wrong(name, tests[name]))]


def _wrong(name: str, test: Callable[[], None]) -> str | None:
    try:
        test()
    except Exception as error:
        return None if name in SENTENCES else f"{name}: {type(error).__name__}: {error}"
    if SENTENCES.get(name, RANDOM) != RANDOM:
        return f"{name} passes: take it out of FAILING in frontends/onnx/official.py"
    return None


@cache
def _node_models() -> Mapping[str, onnx.ModelProto | None]:
    return {case.name: case.model for case in node_cases()}


def op_of(case: TestCase) -> str:
    """Return the op that a case tests, named with its domain; an empty text for a model of several
    nodes. A case with the body of a function tests the function."""
    proto = _node_models().get(case.name.partition("_expanded")[0], case.model)
    if proto is None and case.model_dir is not None:
        proto = onnx.load(Path(case.model_dir) / "model.onnx", load_external_data=False)
    if proto is None or len(proto.graph.node) != 1:
        return ""
    [node] = proto.graph.node
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def all_cases() -> list[TestCase]:
    """Return the cases of all kinds that the runner has."""
    kinds = ("node", "real", "simple", "pytorch-converted", "pytorch-operator")
    return [case for kind in kinds for case in _cases(kind)]


def opened(model: onnx.ModelProto, *, joined: bool = False) -> onnx.ModelProto:
    """The model with a symbol for each size of its inputs, or one for equal sizes if they are
    ``joined``, and outputs of any shape."""
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    for value in opened.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"n{dim.dim_value}" if joined else f"{value.name}_{axis}"
    for value in opened.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return opened


def inputs_of(case: TestCase) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model of a node case, and its inputs by name."""
    model, calls = calls_of(case)
    return model, calls[0][0]


def calls_of(case: TestCase) -> tuple[onnx.ModelProto, list[tuple[dict[str, Array], list[Any]]]]:
    """The model of a node case, and its calls: inputs by name, and outputs."""
    assert case.model is not None
    names = [value.name for value in case.model.graph.input]
    return case.model, [
        (dict(zip(names, map(_array, inputs), strict=False)), [*map(_array, wanted)])
        for inputs, wanted in case.data_sets or ()
    ]


def _array(value: Any) -> Any:
    """An input or output as an array; a sequence is a list."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, list) or value is None else np.asarray(value)
