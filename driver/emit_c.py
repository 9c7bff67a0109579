"""A compiled program for C: an object, and a header with a function that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.codegen.object_file import object_file
from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.pool import LINE
from tessella.runtime.program import NativeStep, Program, TensorSpec
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import OptionError

Array = npt.NDArray[Any]

_TYPES = {
    **{f"{u}int{bits}": f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
}
"""Types of C by dtype. Others have unsigned integers of their size, as they are stored."""

_HEADER = """\
/* {title}

   Written by {versions}.
   Link {name}.o. It needs memcpy, memmove and memset of libc, and a machine with {target}. */

#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes of the workspace of a call, which starts at a multiple of {alignment}. It holds nothing
   between calls; calls at the same time need one each. */
#define {upper}_WORKSPACE {workspace}

extern const unsigned char {name}_weights[];
{declarations}

/* Run the model. Arrays are contiguous, and do not overlap:
{parameters}
   Returns 0, or another number if an index in the inputs is out of range; outputs are undefined
   then. It may be called by several threads at once. */
static inline int {name}_run({arguments}, void *workspace)
{{
  static const void *const weights[] = {{{weights}}};
  unsigned char *memory = (unsigned char *)workspace;
  int64_t status;
  memset(memory, 0, {context});
{body}
  memcpy(&status, memory, sizeof status);
  return (int)status;
}}

#ifdef __cplusplus
}}
#endif
#endif
"""

_SEGMENT = (
    "extern void {symbol}(void *context, const void *const *inputs, void *const *outputs,\n"
    "    const void *const *weights, void *arena, int64_t thread, int64_t threads);"
)


@dataclass(frozen=True)
class CProgram:
    """What is written."""

    header: str
    object: bytes


class _Memory:
    """Parts of a block, at multiples of ``ALIGNMENT``."""

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def add(self, size: int) -> int:
        """Where a new part starts."""
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
    arch: str,
    target: str,
    versions: str,
) -> CProgram:
    """A program for C, whose functions begin with ``name``. Raises OptionError for one with steps
    that are not native."""
    steps = _native_steps(program)
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise OptionError("the name is no identifier of C", found=name, hint="-o names the files")
    if program.code is None:
        raise OptionError("the model has no native code")
    writer = _Writer(name, program, [*inputs], [*outputs])
    body = "\n".join(writer.lines(steps))
    symbols = {step.name: f"{name}_{step.name}" for step in steps}
    table = [f"{name}_weights + {offset}" for offset in writer.offsets] or ["0"]
    header = _HEADER.format(
        title=_comment(f"{', '.join(map(str, inputs))} -> {', '.join(map(str, outputs))}"),
        versions=versions,
        name=name,
        upper=name.upper(),
        target=target,
        alignment=ALIGNMENT,
        workspace=writer.workspace.size,
        declarations="\n".join(_SEGMENT.format(symbol=symbol) for symbol in symbols.values()),
        parameters="\n".join(writer.documentation(shapes)),
        arguments=", ".join(writer.arguments()),
        weights=", ".join(table),
        context=LINE,
        body=body,
    )
    weights = bytes(writer.weights)
    return CProgram(
        header, object_file(arch, program.code.image, symbols, weights, f"{name}_weights")
    )


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


class _Writer:
    """The body of the function that runs a program."""

    def __init__(
        self,
        name: str,
        program: Program,
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
    ) -> None:
        self.program = program
        self.weights = bytearray()
        self.offsets = [self._weight(array) for array in program.weights]
        self.workspace = _Memory(LINE)
        self._inputs, self._outputs = inputs, outputs
        names = _identifiers([info.name for info in (*inputs, *outputs)])
        self._names = names[: len(inputs)], names[len(inputs) :]
        self._values: dict[int, str] = dict(enumerate(self._names[0]))
        """The pointers to values, as C, by number."""
        for number, constant in program.constants.items():
            offset = self._weight(np.ascontiguousarray(constant.array(program.weights)))
            self._values[number] = f"({name}_weights + {offset})"
        self._prefix = name
        self._specs: dict[int, TensorSpec] = {i: c.spec for i, c in program.constants.items()}

    def _weight(self, array: Array) -> int:
        self.weights += bytes(-len(self.weights) % ALIGNMENT)
        self.weights += array.tobytes()
        return len(self.weights) - array.nbytes

    def lines(self, steps: Sequence[NativeStep]) -> list[str]:
        """The calls of segments, and copies of results that are no segment's own output."""
        results = dict(zip(self.program.results, self._names[1], strict=True))
        for step in steps:
            for number, spec in zip(step.outputs, step.specs, strict=True):
                at = f"memory + {self.workspace.add(_bytes(spec))}" if number not in results else ""
                self._values[number] = f"({at})" if at else results[number]
                self._specs[number] = spec
        arena = max((step.arena_bytes + step.private_bytes for step in steps), default=0)
        start = self.workspace.add(arena)
        calls = [line for step in steps for line in self._call(step, start)]
        return [*calls, *self._copies()]

    def _call(self, step: NativeStep, arena: int) -> Iterable[str]:
        inputs, outputs = (
            ", ".join(self._values[i] for i in numbers) or "0"
            for numbers in (step.inputs, step.outputs)
        )
        yield "  {"
        yield f"    const void *inputs[] = {{{inputs}}};"
        yield f"    void *outputs[] = {{{outputs}}};"
        symbol = f"{self._prefix}_{step.name}"
        yield f"    {symbol}(memory, inputs, outputs, weights, memory + {arena}, 0, 1);"
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
            if self._values[number] != name:
                size = _bytes(self._specs[number])
                yield f"  memcpy({name}, {self._values[number]}, {size});"

    def arguments(self) -> list[str]:
        """The parameters of the function."""
        pairs = zip(self._names[0], self._inputs, strict=True)
        inputs = [f"const {_type(info)} *{name}" for name, info in pairs]
        pairs = zip(self._names[1], self._outputs, strict=True)
        return [*inputs, *(f"{_type(info)} *{name}" for name, info in pairs)]

    def documentation(self, shapes: Sequence[Sequence[int]]) -> list[str]:
        """A line for each parameter."""
        results = [self._specs.get(number) for number in self.program.results]
        sizes = [*shapes, *(() if spec is None else spec.shape for spec in results)]
        infos, names = (*self._inputs, *self._outputs), (*self._names[0], *self._names[1])
        return [
            f"   {name}: {info.dtype}[{', '.join(map(str, shape))}]"
            for name, info, shape in zip(names, infos, sizes, strict=True)
        ]


def _comment(text: str) -> str:
    """What cannot end a comment: names in models are anybody's."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _type(info: ValueInfo) -> str:
    return _TYPES.get(info.dtype, "uint8_t" if "8" in info.dtype else "uint16_t")


def _bytes(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape, dtype=np.int64)) * spec.dtype.itemsize


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names of C for these, all different, and different from those that the function uses."""
    taken: Mapping[str, None] = dict.fromkeys(_RESERVED)
    found: list[str] = []
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
        base = f"_{base}" if base[0].isdigit() else base
        choice, number = base, 1
        while choice in taken or choice in found:
            number += 1
            choice = f"{base}_{number}"
        found.append(choice)
    return found


_RESERVED = """
    memory status weights workspace inputs outputs memcpy memset auto break case char const continue
    default do double else enum extern float for goto if inline int long register restrict return
    short signed sizeof static struct switch typedef union unsigned void volatile while class new
    delete this template operator private public protected virtual namespace using try catch throw
    bool true false and or not xor
""".split()
