"""A compiled program for C: an object, and a header with the function that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.codegen.object_file import object_file
from tessella.driver.ship.c_header import RESERVED, SEGMENT, comment, header
from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.pool import LINE
from tessella.runtime.program import Program
from tessella.runtime.signature import ValueInfo
from tessella.runtime.specs import TensorSpec
from tessella.support.decisions import known
from tessella.support.errors import OptionError
from tessella.support.names import identifiers
from tessella.targets.family import Family

Array = npt.NDArray[Any]

_TYPES = {
    **{f"{u}int{bits}": f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
}
"""C types by dtype. Other dtypes use the unsigned integers of their size, as they are stored."""

_APART = """
/* The file of the weights. */
#define {upper}_WEIGHTS_BYTES {bytes}
#define {upper}_WEIGHTS_SHA256 "{digest}"
"""
_NOTE = """
   weights: the {upper}_WEIGHTS_BYTES bytes of {name}.weights, mapped or read to a multiple of 64"""


@dataclass(frozen=True)
class CProgram:
    """The files of a C program."""

    header: str
    object: bytes
    weights: bytes | None
    """The contents of the file of weights; None if the object contains the weights."""


class _Memory:
    """The layout of a block of memory, with parts aligned to ``ALIGNMENT``."""

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def add(self, size: int) -> int:
        """Add a part of ``size`` bytes to the block, and return its offset."""
        start = self.size
        self.size += size + -size % ALIGNMENT
        return start


def emit_c(
    name: str,
    program: Program,
    inputs: Sequence[ValueInfo],
    outputs: Sequence[ValueInfo],
    shapes: Sequence[Sequence[int]],
    *,
    family: Family,
    target: str,
    versions: str,
    weights: str = "object",
) -> CProgram:
    """Return the files of a program for C. The names of its functions begin with ``name``.

    Raises OptionError for a program with steps that are not native.
    """
    steps = _native_steps(program)
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise OptionError("the name is not a C identifier", found=name, hint="-o names the files")
    if program.code is None:
        raise OptionError("the model has no native code")
    apart = weights == "file"
    writer = _HeaderWriter(name, program, [*inputs], [*outputs], apart=apart)
    values = {
        "title": comment(f"{', '.join(map(str, inputs))} -> {', '.join(map(str, outputs))}"),
        "versions": versions,
        "target": target,
        **writer.parts(steps, shapes),
    }
    symbols = {step.name: f"{name}_{step.name}" for step in steps}
    table = {} if apart else {f"{name}_weights": bytes(writer.weights)}
    made = object_file(family, program.code.image, symbols, table)
    return CProgram(header(name, values), made, bytes(writer.weights) if apart else None)


def _native_steps(program: Program) -> Sequence[NativeStep]:
    others = [step for step in program.steps if not isinstance(step, NativeStep)]
    if others:
        named = (getattr(step, "kernel", "nn.scan") for step in others)
        raise OptionError(
            "C has no NumPy, which the model needs",
            expected="a model whose ops all have native kernels",
            found=", ".join(sorted(set(named))),
            hint="`tessella explain MODEL` shows which ops have none, and why",
        )
    return [step for step in program.steps if isinstance(step, NativeStep)]


class _HeaderWriter:
    """The parts of the header that depend on the program."""

    def __init__(
        self,
        name: str,
        program: Program,
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
        *,
        apart: bool,
    ) -> None:
        self.program = program
        self.weights = bytearray()
        self._apart = apart
        self._offsets = [self._weight(array) for array in program.weights]
        self._memory = _Memory()
        """The layout of the workspace after the contexts of the threads."""
        self._inputs, self._outputs = inputs, outputs
        names = identifiers([info.name for info in (*inputs, *outputs)], RESERVED)
        self._names = names[: len(inputs)], names[len(inputs) :]
        self._values: dict[int, str] = dict(enumerate(self._names[0]))
        """C expressions for pointers to values of the program, by the value's number."""
        for number, constant in program.constants.items():
            offset = self._weight(np.ascontiguousarray(constant.array(program.weights)))
            self._values[number] = f"constants + {offset}"
        self._prefix = name
        self._specs: dict[int, TensorSpec] = {i: c.spec for i, c in program.constants.items()}

    def _weight(self, array: Array) -> int:
        self.weights += bytes(-len(self.weights) % ALIGNMENT)
        self.weights += array.tobytes()
        return len(self.weights) - array.nbytes

    def parts(
        self, steps: Sequence[NativeStep], shapes: Sequence[Sequence[int]]
    ) -> Mapping[str, object]:
        """Return the text for each placeholder of the template that depends on the program."""
        body = list(self._calls(steps))
        private = max((known(step.private_bytes) for step in steps), default=0)
        arguments = self._arguments()
        table = [f"constants + {offset}" for offset in self._offsets]
        symbols = map(self._symbol, steps)
        parts = (SEGMENT.format(name=self._prefix, symbol=symbol) for symbol in symbols)
        return {
            "declarations": "\n".join(parts),
            "body": "\n".join(body),
            "copies": "\n".join(self._copies()),
            "weights": ", ".join(table) or "NULL",
            "shared": self._memory.size,
            "private": LINE + private + -private % ALIGNMENT,
            "parameters": "\n".join(self._documentation(shapes)),
            "arguments": ", ".join([*arguments, *self._if_apart("const void *weights")]),
            "passed": ", ".join([*self._names[0], *self._names[1], *self._if_apart("weights")]),
            **(self._weights_apart() if self._apart else self._weights_within()),
        }

    def _weights_apart(self) -> Mapping[str, str]:
        upper, digest = self._prefix.upper(), sha256(self.weights).hexdigest()
        return {
            "weights_base": "(const unsigned char *)weights",
            "weights_note": _NOTE.format(name=self._prefix, upper=upper),
            "weights_declaration": _APART.format(
                upper=upper, bytes=len(self.weights), digest=digest
            ),
        }

    def _weights_within(self) -> Mapping[str, str]:
        return {
            "weights_base": f"{self._prefix}_weights",
            "weights_note": "",
            "weights_declaration": f"\nextern const unsigned char {self._prefix}_weights[];",
        }

    def _if_apart(self, text: str) -> Sequence[str]:
        return [text] if self._apart else []

    def _symbol(self, step: NativeStep) -> str:
        return f"{self._prefix}_{step.name}"

    def _calls(self, steps: Sequence[NativeStep]) -> Iterator[str]:
        """Yield the lines of C that call the program's segments."""
        results = dict(zip(self.program.results, self._names[1], strict=True))
        for step in steps:
            for number, spec in zip(step.outputs, step.specs, strict=True):
                name = results.get(number)
                at = f"arena + {self._memory.add(_bytes(spec))}" if name is None else name
                self._values[number] = at
                self._specs[number] = spec
        start = self._memory.add(max((known(step.arena_bytes) for step in steps), default=0))
        for step in steps:
            yield from self._call(step, start)

    def _call(self, step: NativeStep, arena: int) -> Iterable[str]:
        inputs, outputs = (
            ", ".join(self._values[i] for i in numbers) or "NULL"
            for numbers in (step.inputs, step.outputs)
        )
        yield "  {"
        yield f"    const void *inputs[] = {{{inputs}}};"
        yield f"    void *outputs[] = {{{outputs}}};"
        privates = arena + known(step.arena_bytes)
        memory = f"arena + {arena}, arena + {privates}, {known(step.private_bytes)}"
        yield f"    const struct {self._prefix}_arguments passed ="
        yield f"        {{context, inputs, outputs, table, {memory}}};"
        yield f"    {self._symbol(step)}(&passed);"
        yield "  }"

    def _copies(self) -> Iterable[str]:
        for number, name, info in zip(
            self.program.results, self._names[1], self._outputs, strict=True
        ):
            if number not in self._specs:
                raise OptionError(
                    "an output of the model is one of its inputs, and nothing computes it",
                    where=f"output {info.name!r}",
                    found=self._inputs[number].name,
                )
            source = self._values[number]
            if source != name:
                yield f"  memcpy({name}, {source}, {_bytes(self._specs[number])});"

    def _arguments(self) -> list[str]:
        """Return the C parameters for the inputs and outputs: pointers to arrays."""
        pairs = zip(self._names[0], self._inputs, strict=True)
        inputs = [f"const {_type(info)} *{name}" for name, info in pairs]
        pairs = zip(self._names[1], self._outputs, strict=True)
        return [*inputs, *(f"{_type(info)} *{name}" for name, info in pairs)]

    def _documentation(self, shapes: Sequence[Sequence[int]]) -> list[str]:
        """Return a line of the header's documentation for each input and output: its name, dtype
        and shape."""
        results = [self._specs.get(number) for number in self.program.results]
        sizes = [*shapes, *(() if spec is None else spec.shape for spec in results)]
        infos, names = (*self._inputs, *self._outputs), (*self._names[0], *self._names[1])
        return [
            f"   {name}: {info.dtype}[{', '.join(map(str, shape))}]"
            for name, info, shape in zip(names, infos, sizes, strict=True)
        ]


def _type(info: ValueInfo) -> str:
    return _TYPES.get(info.dtype, "uint8_t" if "8" in info.dtype else "uint16_t")


def _bytes(spec: TensorSpec) -> int:
    return prod(spec.numbers) * spec.dtype.itemsize
