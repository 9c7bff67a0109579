"""Running the test cases that the onnx package carries through the importer and the interpreter."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from tessella.frontends.onnx import OnnxSource
from tessella.runtime.elements import as_own, element_of, widened
from tessella.support.errors import TessellaError, UnsupportedError
from tests.frontends.onnx.models import Interpreted

Array = npt.NDArray[Any]

KEPT = Path(__file__).parents[3] / "build" / f"onnx-{onnx.__version__}-numpy-{np.__version__}"
"""The node suite of other runs: onnx computes its cases anew in each process, in five seconds."""


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


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: ``passed``, ``unsupported``, ``wrong`` or ``failed``, with the
    reason."""

    name: str
    status: str
    reason: str = ""


class Runnable(Protocol):
    """A model that can be run."""

    def run(self, names: None, feeds: Mapping[str, Array], /) -> Sequence[Array]: ...


def run_case(
    case: TestCase,
    *,
    symbolic: bool = False,
    joined: bool = False,
    make: Callable[[OnnxSource], Runnable] = Interpreted,
) -> Outcome:
    """The outcome of one case, with all sizes of inputs left open if it is ``symbolic`` (see
    ``opened``); an exception that is not a TessellaError counts as a failure."""
    model, data_sets = _loaded(case)
    if symbolic:
        model = opened(model, joined=joined)
    try:
        runs = (_run(make(OnnxSource(model)), model, case, *data) for data in data_sets)
        problem = next(filter(None, runs), None)
    except UnsupportedError as error:
        return Outcome(case.name, "unsupported", str(error))
    except TessellaError as error:
        return Outcome(case.name, "failed", str(error))
    except Exception as error:
        return Outcome(case.name, "failed", repr(error))
    return Outcome(case.name, "wrong", problem) if problem else Outcome(case.name, "passed")


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
    """The model of a case, and its inputs by name."""
    model, data_sets = _loaded(case)
    return model, _feeds(model, data_sets[0][0])


def calls_of(case: TestCase) -> tuple[onnx.ModelProto, list[tuple[dict[str, Array], list[Any]]]]:
    """The model of a case, and its calls: inputs by name, and outputs."""
    model, data_sets = _loaded(case)
    return model, [(_feeds(model, each), [*map(_array, wanted)]) for each, wanted in data_sets]


def _feeds(model: onnx.ModelProto, inputs: Sequence[Any]) -> dict[str, Array]:
    initializers = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in initializers]
    return dict(zip(names, map(_array, inputs), strict=False))


def _run(
    made: Runnable,
    model: onnx.ModelProto,
    case: TestCase,
    inputs: Sequence[Any],
    expected: Sequence[Any],
) -> str | None:
    found = made.run(None, _feeds(model, inputs))
    pairs = zip(found, map(_array, expected), strict=True)
    return next(filter(None, (difference(a, b, case) for a, b in pairs)), None)


class Tolerance(Protocol):
    """The tolerance of floats in a case of the suite."""

    @property
    def rtol(self) -> float: ...

    @property
    def atol(self) -> float: ...


def difference(found: Any, expected: Any, within: Tolerance) -> str | None:
    """Return how a value differs from the expected one, or None."""
    if expected is None or isinstance(expected, list):
        return _difference_of_held(found, expected, within)
    expected = as_own(expected)
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{found.shape}, expected {expected.dtype}{expected.shape}"
    element = element_of(found.dtype)
    assert element is not None
    if element.kind == "string":
        return None if found.tolist() == expected.tolist() else f"{found}, expected {expected}"
    # what is expected has rounding errors of its own: 2e-7 where an inverse DFT is 0, and one of
    # each step where it was computed in f16 or bf16
    least = 2 * element.epsilon if element.narrow else 0.0
    rtol = max(within.rtol, least) if element.is_float else 0.0
    atol = max(within.atol, 1e-6) if element.is_float else 0.0
    try:
        np.testing.assert_allclose(widened(found), widened(expected), rtol=rtol, atol=atol)
    except AssertionError as error:
        return str(error)
    return None


def _difference_of_held(found: Any, expected: Any, within: Tolerance) -> str | None:
    if type(found) is not type(expected) or len(found or ()) != len(expected or ()):
        return f"{found}, expected {expected}"
    pairs = zip(found or (), expected or (), strict=True)
    return next(filter(None, (difference(a, b, within) for a, b in pairs)), None)


def _array(value: Any) -> Any:
    """An input or output as an array; a sequence is a list."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, list) or value is None else np.asarray(value)


def _loaded(
    case: TestCase,
) -> tuple[onnx.ModelProto, Sequence[tuple[Sequence[Any], Sequence[Any]]]]:
    if case.model is not None and case.data_sets is not None:
        return case.model, case.data_sets
    folder = Path(str(case.model_dir))
    data = [
        tuple(
            [_read(path) for path in sorted(each.glob(f"{kind}_*.pb"), key=_number)]
            for kind in ("input", "output")
        )
        for each in sorted(folder.glob("test_data_set_*"))
    ]
    return onnx.load(folder / "model.onnx"), [(inputs, outputs) for inputs, outputs in data]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _read(path: Path) -> Any:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)
    except Exception:
        # a sequence or an optional
        return []
