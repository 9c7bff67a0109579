"""Kernels written as text, compiled for the machines that this one can be, and called."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tessella import targets
from tessella.codegen.emit import emit
from tessella.codegen.link import link
from tessella.dialects.arith import RemFOp
from tessella.dialects.rt import CONTEXT_SLOTS, SIZES_SLOT, Rt
from tessella.runtime.image import Library
from tessella.targets import Target
from tessella.targets.table import TARGETS
from tests.codegen import aarch64
from tests.shared_kernels import kept_object

Array = npt.NDArray[Any]

RUNNABLE = [t for t in TARGETS.values() if targets.can_run(t)]

NEON = targets.get("neon")
EMULATED = [NEON] if NEON not in RUNNABLE and aarch64.AVAILABLE else []
"""Targets for which a kernel, but not a library, can be run."""

DTYPES: dict[str, type[np.generic]] = {
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


@functools.cache
def _context() -> Context:
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    context.register_dialect("rt", lambda: Rt)
    context.load_op(RemFOp)
    return context


@dataclass(frozen=True)
class Case:
    """An op on some of the inputs of a kernel."""

    op: str
    inputs: Sequence[str]
    result: str
    """The element of the result, such as `f32`."""

    properties: str = ""


def parse(text: str) -> ModuleOp:
    """A module; not verified, as xDSL's verifiers know few ops on vectors."""
    return Parser(_context(), text).parse_module()


def kernel_text(source: str, target: Target, name: str = "k") -> str:
    """The LLVM text of the kernel of that name."""
    return emit(parse(source), target)[name]


def call(source: str, target: Target, *arrays: Array) -> npt.NDArray[np.int64]:
    """Compile the source, call its kernel `k` on the arrays in place; the context after it."""
    return call_text(kernel_text(source, target), target, *arrays)


@functools.lru_cache(maxsize=8)
def _linked(text: str, target: Target, name: str) -> Library:
    return Library(link({name: kept_object(text, target)}))


def call_text(
    text: str,
    target: Target,
    *arrays: Array,
    name: str = "k",
    sizes: Iterable[int] = (),
    turns: Sequence[tuple[int, int]] = ((0, 1),),
) -> npt.NDArray[np.int64]:
    """Call the kernel of an LLVM text on the arrays in place, for these values of symbols, as each
    of these threads of so many in turn; the context after it."""
    values = np.array([*sizes, 0], np.int64)
    context = np.zeros(CONTEXT_SLOTS, np.int64)
    context[SIZES_SLOT] = values.ctypes.data
    pointers = [array.ctypes.data for array in (context, *arrays)]
    buffers = (ctypes.c_void_p * len(pointers))(*pointers)
    function = _function(text, target, name)
    for thread, threads in turns:
        function(buffers, thread, threads)
    context[SIZES_SLOT] = 0
    return context


def _function(text: str, target: Target, name: str) -> Callable[[Any, int, int], object]:
    """The kernel of an LLVM text."""
    library = _linked(text, target, name)
    if not targets.can_run(target):
        cores = aarch64.Machine(library.image, seed=0)
        return lambda buffers, *numbers: cores.call(
            cores.functions[name], ctypes.addressof(buffers), *numbers
        )
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64
    return ctypes.CFUNCTYPE(None, pointer, i64, i64)(library.address(name))


def elementwise(
    target: Target,
    lanes: int,
    inputs: Mapping[str, tuple[str, Array]],
    cases: Mapping[str, Case],
) -> dict[str, Array]:
    """The result of every case on every element. Inputs: an element's name and an array each."""
    size = next(len(array) for _, array in inputs.values())
    outputs = {name: np.zeros(size, DTYPES[case.result]) for name, case in cases.items()}
    elements = {name: element for name, (element, _) in inputs.items()}
    source = elementwise_source(lanes, size, elements, cases)
    call(source, target, *(array for _, array in inputs.values()), *outputs.values())
    return outputs


def vector(element: str, lanes: int) -> str:
    """A type of so many lanes; a scalar for 0."""
    return f"vector<{lanes}x{element}>" if lanes else element


def elementwise_source(
    lanes: int, size: int, inputs: Mapping[str, str], cases: Mapping[str, Case]
) -> str:
    """A kernel `k` over buffers of that size: inputs by the name of their element, then results."""
    load, store = ("vector.load", "vector.store") if lanes else ("memref.load", "memref.store")

    def buffer(element: str) -> str:
        return f"memref<{size}x{element}>"

    def suffix(element: str) -> str:
        return f", {vector(element, lanes)}" if lanes else ""

    parameters = [f"%in.{name}: {buffer(element)}" for name, element in inputs.items()]
    parameters += [f"%out.{name}: {buffer(case.result)}" for name, case in cases.items()]
    body = [
        f"%{name} = {load} %in.{name}[%i] : {buffer(element)}{suffix(element)}"
        for name, element in inputs.items()
    ]
    for name, case in cases.items():
        operands = ", ".join(f"%{operand}" for operand in case.inputs)
        types = ", ".join(vector(inputs[operand], lanes) for operand in case.inputs)
        result = vector(case.result, lanes)
        properties = f" <{{{case.properties}}}>" if case.properties else ""
        body.append(f'%r.{name} = "{case.op}"({operands}){properties} : ({types}) -> {result}')
        at = f"%out.{name}[%i] : {buffer(case.result)}{suffix(case.result)}"
        body.append(f"{store} %r.{name}, {at}")
    lines = "\n      ".join(body)
    return f"""
    rt.kernel @k({", ".join(parameters)}) threads(%thread, %threads) {{
      %from = arith.constant 0 : index
      %to = arith.constant {size} : index
      %by = arith.constant {lanes or 1} : index
      scf.for %i = %from to %to step %by {{
      {lines}
      }}
      rt.return
    }}"""
