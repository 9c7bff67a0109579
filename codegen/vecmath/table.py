"""The table of vector math functions, and the code that calls one.

A function becomes `internal alwaysinline` in the module that calls it, once for each type that is
used: `ts.exp.v16f32`. `targets/vectormath.py` has the bounds of the functions' errors.
"""

from __future__ import annotations

from collections.abc import Callable

from tessella.codegen.lltypes import LLType, LLValue
from tessella.codegen.vecmath.error import erf
from tessella.codegen.vecmath.exponential import exp, exp2, exp_or_zero, expm1
from tessella.codegen.vecmath.hyperbolic import cosh, sinh, tanh
from tessella.codegen.vecmath.lanes import Lanes
from tessella.codegen.vecmath.logarithm import acosh, asinh, atanh, log, log1p, log2, log10
from tessella.codegen.vecmath.power import powf
from tessella.codegen.vecmath.remainder import remf
from tessella.codegen.vecmath.trigonometric import acos, asin, atan, cos, sin, tan
from tessella.codegen.writer import Writer
from tessella.support.errors import InternalError
from tessella.targets.vectormath import supports

FUNCTIONS: dict[str, Callable[..., Lanes]] = {
    "arith.remf": remf,
    "math.acos": acos,
    "math.acosh": acosh,
    "math.asin": asin,
    "math.asinh": asinh,
    "math.atan": atan,
    "math.atanh": atanh,
    "math.cos": cos,
    "math.cosh": cosh,
    "math.erf": erf,
    "math.exp": exp,
    "math.exp2": exp2,
    "math.expm1": expm1,
    "math.log": log,
    "math.log1p": log1p,
    "math.log2": log2,
    "math.log10": log10,
    "math.powf": powf,
    "math.sin": sin,
    "math.sinh": sinh,
    "math.tan": tan,
    "math.tanh": tanh,
}
"""The function from `Lanes` to `Lanes` that computes each op, by op name."""

APPROXIMATE: dict[str, Callable[..., Lanes]] = {"math.exp": exp_or_zero}
"""The faster function for an op whose flags allow approximations, by op name."""

_PARAMETERS = ("%x", "%y")


def call(w: Writer, name: str, *operands: LLValue, approximate: bool = False) -> LLValue:
    """Write a call of the op's function, and the function itself if the module lacks it. With
    ``approximate``, call the faster function, if there is one.

    Raises InternalError if the function does not exist for the operands' type.
    """
    lltype = operands[0].type
    if not supports(name, lltype.bits):
        raise InternalError(
            f"no vector code for {name} on {lltype.text}",
            hint="tessella.targets.vectormath.supports says so beforehand",
        )
    function, suffix = FUNCTIONS[name], ""
    if approximate and name in APPROXIMATE:
        function, suffix = APPROXIMATE[name], ".afn"
    symbol = f"ts.{name.partition('.')[2]}{suffix}.{lltype.mangled}"
    if symbol not in w.helpers:
        w.helpers[symbol] = define(w, symbol, function, lltype, len(operands))
    return w.call(lltype, symbol, *operands)


def define(
    caller: Writer, symbol: str, function: Callable[..., Lanes], lltype: LLType, arity: int
) -> str:
    """Return the text of an LLVM function. The functions that it calls are added to the caller's
    helpers."""
    w = Writer(caller.target, helpers=caller.helpers)
    operands = [LLValue(lltype, name) for name in _PARAMETERS[:arity]]
    result = function(*(Lanes(w, operand) for operand in operands))
    parameters = ", ".join(operand.typed for operand in operands)
    return "\n".join(
        [
            f"define internal {lltype.text} @{symbol}({parameters}) #1 {{",
            "entry:",
            *w.lines,
            f"  ret {result.value.typed}",
            "}",
        ]
    )
