"""A program as bytes, from which it is made again without the compiler.

The length of a text in 8 bytes; the text, JSON; then, each at a multiple of 64 bytes after it, the
arrays and the image that the text names by where they are. Large arrays are elsewhere: the text has
their names. The bytes hold native code, and nothing is checked here: whoever stores them must make
sure that they are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tessella.runtime import sharing
from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.elements import dtype_name, dtype_named
from tessella.runtime.image import Function, Image, Library
from tessella.runtime.program import (
    Constant,
    HostStep,
    NativeStep,
    Program,
    ScanStep,
    Step,
    TensorSpec,
)
from tessella.runtime.scan import Loop

Array = npt.NDArray[Any]
Part = tuple[int, int]
"""Where something starts, and how many bytes it has."""

LENGTH = 8


class NotStorableError(Exception):
    """A program with something in it that has no form in JSON."""


Keep = Callable[[Array], str]
"""Stores an array of bytes elsewhere. Returns its name."""

Find = Callable[[Sequence[tuple[str, int]]], Sequence[Array]]
"""The arrays of these names and sizes, as they were kept. It raises where one is gone."""

LARGE = 1 << 16
"""Bytes of an array that is kept elsewhere."""


class _Parts:
    """Bytes after the text."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.buffers: list[bytes | memoryview] = []
        self._end = 0

    def add(self, data: bytes | memoryview) -> Part:
        start, size = self._end, memoryview(data).nbytes
        padding = -size % ALIGNMENT
        self.buffers += [data, bytes(padding)]
        self._end += size + padding
        return start, size

    def weight(self, array: Array) -> Part | tuple[str, int]:
        if array.size < LARGE:
            return self.add(array.data)
        return self.keep(array), array.size


def dump(program: Program, keep: Keep) -> Sequence[bytes | memoryview]:
    """The bytes, in parts. Raises NotStorableError."""
    parts = _Parts(keep)
    code = None if program.code is None else _image(program.code.image, parts)
    text = {**_program(program, parts), "code": code}
    head = json.dumps(text).encode()
    head += b" " * (-(LENGTH + len(head)) % ALIGNMENT)
    return [len(head).to_bytes(LENGTH), head, *parts.buffers]


def restore(data: memoryview, find: Find) -> Program:
    """The program that ``dump`` was given. The bytes start at a multiple of ``ALIGNMENT``, and the
    program owns them from now on. Raises what ``find`` raises."""
    end = LENGTH + int.from_bytes(data[:LENGTH])
    text = json.loads(bytes(data[LENGTH:end]))

    def part(at: Part) -> memoryview:
        return data[end + at[0] : end + at[0] + at[1]]

    code = None if text["code"] is None else Library(_restored_image(text["code"], part))
    return _restored_program(text, code, _Pieces(part, find))


class _Pieces(NamedTuple):
    """Where the arrays of a program are."""

    part: Callable[[Part], memoryview]
    find: Find

    def weights(self, places: Sequence[Any]) -> list[Array]:
        far = iter(self.find([(name, size) for name, size in places if isinstance(name, str)]))
        return sharing.adopted(
            [next(far) if isinstance(place[0], str) else self._near(place) for place in places]
        )

    def _near(self, place: Part) -> Array:
        return np.frombuffer(self.part(place), np.uint8)


def _program(program: Program, parts: _Parts) -> dict[str, Any]:
    return {
        "inputs": program.inputs,
        "results": program.results,
        "nodes": {str(code): list(names) for code, names in program.nodes.items()},
        "steps": [_step(step, parts) for step in program.steps],
        "constants": {str(i): [c.slot, *_spec(c.spec)] for i, c in program.constants.items()},
        "weights": [parts.weight(array) for array in program.weights],
    }


def _restored_program(entry: Mapping[str, Any], code: Library | None, pieces: _Pieces) -> Program:
    return Program(
        inputs=entry["inputs"],
        steps=tuple(_restored(step, code, pieces) for step in entry["steps"]),
        results=tuple(entry["results"]),
        constants={int(i): _restored_constant(c) for i, c in entry["constants"].items()},
        weights=pieces.weights(entry["weights"]),
        nodes={int(number): names for number, names in entry["nodes"].items()},
        code=code,
    )


def _image(image: Image, parts: _Parts) -> dict[str, Any]:
    return {
        "functions": image.functions,
        "imports": image.imports,
        "at": parts.add(image.code),
    }


def _restored_image(entry: Mapping[str, Any], part: Callable[[Part], memoryview]) -> Image:
    functions = {name: Function(*function) for name, function in entry["functions"].items()}
    return Image(part(entry["at"]), functions, entry["imports"])


def _step(step: Step, parts: _Parts) -> dict[str, Any]:
    if isinstance(step, ScanStep):
        return {
            "body": _program(step.body, parts),
            "loop": [step.loop.carried, step.loop.scanned, step.loop.backward],
            "inputs": step.inputs,
            "outputs": step.outputs,
        }
    if isinstance(step, NativeStep):
        specs = list(map(_spec, step.specs))
        return {
            "segment": step.name,
            "arena": [step.arena_bytes, step.private_bytes],
            "shared": [step.shared, step.brief],
            "inputs": step.inputs,
            "outputs": step.outputs,
            "specs": specs,
        }
    return {
        "kernel": step.kernel,
        "node": step.node,
        "inputs": step.inputs,
        "outputs": step.outputs,
        "settings": {name: _value(value) for name, value in step.settings.items()},
        "specs": None if step.specs is None else list(map(_spec, step.specs)),
    }


def _restored(entry: Mapping[str, Any], code: Library | None, pieces: _Pieces) -> Step:
    inputs, outputs = tuple(entry["inputs"]), tuple(entry["outputs"])
    if "body" in entry:
        carried, scanned, backward = entry["loop"]
        body = _restored_program(entry["body"], code, pieces)
        return ScanStep(body, Loop(carried, scanned, tuple(backward)), inputs, outputs)
    if "segment" in entry:
        specs = tuple(map(_restored_spec, entry["specs"]))
        name, (arena, private) = entry["segment"], entry["arena"]
        shared, brief = entry["shared"]
        return NativeStep(name, arena, inputs, outputs, specs, shared, private, brief)
    settings = {name: _restored_value(value) for name, value in entry["settings"].items()}
    named = entry["specs"]
    specs = None if named is None else tuple(map(_restored_spec, named))
    return HostStep(entry["kernel"], entry["node"], inputs, outputs, settings, specs)


def _spec(spec: TensorSpec) -> tuple[tuple[int, ...], str]:
    return spec.shape, dtype_name(spec.dtype)


def _restored_spec(entry: Sequence[Any]) -> TensorSpec:
    shape, name = entry
    return TensorSpec(tuple(shape), dtype_named(name))


def _restored_constant(entry: Sequence[Any]) -> Constant:
    slot, *spec = entry
    return Constant(slot, _restored_spec(spec))


def _value(value: Any) -> Any:
    """A setting in JSON: a tuple is a list, a dtype an object."""
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, tuple):
        return [_value(item) for item in cast(tuple[Any, ...], value)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise NotStorableError(f"a setting {value!r}")


def _restored_value(value: Any) -> Any:
    if isinstance(value, dict):
        return dtype_named(cast(dict[str, str], value)["dtype"])
    if isinstance(value, list):
        return tuple(_restored_value(item) for item in cast(list[Any], value))
    return value
