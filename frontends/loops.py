"""Loops and branches of a program under construction: `nn.scan` and its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from tessella.dialects import nn
from tessella.dialects.nn.core import Tensor, dtype_of, tensor
from tessella.frontends.emitter import Emitter, Value, Values
from tessella.frontends.functions import isolate
from tessella.runtime.scan import Loop
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, estimated

Step = Callable[[Values, Values], tuple[Values, Values]]
"""A function that emits one iteration: it takes the carried values and an element of each input
sequence, and returns the next carried values and an element of each output sequence."""

MOST_CARRIED = 1 << 20
"""The maximum size in bytes of the results of a branch in native code. The scan of the side that is
not taken copies them."""


def scan(
    emitter: Emitter,
    name: str,
    first: Values,
    sequences: Values,
    step: Step,
    backward: Callable[[int], bool] = lambda sequence: False,
    *,
    conditional: bool = False,
) -> Values:
    """Emit a loop that runs ``step`` for each element of ``sequences``. Returns the last carried
    values and the output sequences.

    A ``conditional`` loop runs while the first carried value is true, and needs no sequence.
    ``step`` emits the ops of the body, which may read all existing values. ``backward`` tells which
    sequences run from their last element to the first, by number: the inputs are numbered first,
    then the outputs. Raises ShapeError.
    """
    steps = _length(sequences) if sequences or not conditional else None
    body, carried, outputs = _body(emitter, first, sequences, step)
    if steps == 0:
        types = [y.type for y in outputs]
        body.erase(safe_erase=False)
        empty = (emitter.splat(0, (0, *t.get_shape()), dtype_of(t)) for t in types)
        return [*first, *empty]
    numbers = filter(backward, range(len(sequences) + len(outputs)))
    loop = Loop(len(first), len(sequences), tuple(numbers), conditional)
    return _loop(emitter, name, loop, body, [*first, *sequences], [*carried, *outputs])


def branch(emitter: Emitter, name: str, condition: Value, *sides: Callable[[], Values]) -> Values:
    """Emit a branch: the results of the first side if ``condition`` is true, otherwise those of the
    second.

    Each side is a function that emits ops. Both must return the same types, of at most
    ``MOST_CARRIED`` bytes, otherwise ShapeError is raised. Each side becomes a scan of at most one
    iteration that carries the results, so only the side that is taken runs.
    """
    bodies: list[tuple[Block, Values]] = []
    try:
        for side in sides:
            bodies.append((Block(arg_types=[condition.type]), ()))
            with emitter.inside(bodies[-1][0]):
                bodies[-1] = (bodies[-1][0], side())
        types = _common_types([values for _, values in bodies])
    except Exception:
        for body, _ in bodies:
            body.erase(safe_erase=False)
        raise
    made: Values = [emitter.splat(0, t.get_shape(), dtype_of(t)) for t in types]
    once, goes = emitter.constant(np.zeros(1, np.int64)), condition
    loop = Loop(1 + len(made), 1, conditional=True)
    for body, values in bodies:
        for type in (*types, tensor(i64, ())):
            body.insert_arg(type, len(body.args))
        carried = [*emitter.values(body.args[:1]), *values]
        made = _loop(emitter, name, loop, body, [goes, *made, once], carried)[1:]
        goes = ~condition
    return made


def _loop(
    emitter: Emitter, name: str, loop: Loop, body: Block, operands: Values, returned: Values
) -> Values:
    """Emit a scan whose function has ``body`` as its block and returns ``returned``."""
    body.add_op(ReturnOp(*(value.ssa for value in returned)))
    others = isolate(body)
    given = [value.type for value in returned]
    after = loop.carried + loop.scanned
    length = operands[loop.carried].shape[:1] if after > loop.carried else ()
    stacked = [tensor(t.element_type, (*length, *t.get_shape())) for t in given[loop.carried :]]
    name = f"{name}_{len(emitter.functions)}"
    takes = [argument.type for argument in body.args]
    emitter.functions.append(FuncOp(name, (takes, given), Region(body)))
    types = [*given[: loop.carried], *stacked]
    op = nn.ScanOp(name, [*(x.ssa for x in operands), *others], types, loop)
    if where := emitter.where():
        op.attributes["node"] = StringAttr(where)
    return emitter.append(op)


def _body(
    emitter: Emitter, first: Values, sequences: Values, step: Step
) -> tuple[Block, Values, Values]:
    """Return the block of a loop's body, the next carried values, and the elements of the output
    sequences."""
    elements = [tensor(x.type.element_type, x.shape[1:]) for x in sequences]
    body = Block(arg_types=[*(x.type for x in first), *elements])
    arguments = emitter.values(body.args)
    try:
        with emitter.inside(body):
            carried, outputs = step(arguments[: len(first)], arguments[len(first) :])
        for old, new in zip(first, carried, strict=True):
            _check_carried(old, new)
    except Exception:
        # ops of the block use values of the program, so it is erased without the check for uses
        body.erase(safe_erase=False)
        raise
    return body, carried, outputs


def _common_types(sides: Sequence[Values]) -> Sequence[Tensor]:
    """Return the types of a branch's results, which must be the same on each side and of at most
    ``MOST_CARRIED`` bytes. Raises ShapeError."""
    types = [[value.type for value in values] for values in sides]
    if any(each != types[0] for each in types):
        raise ShapeError("branches give different types")
    bytes = sum(prod(map(estimated, t.get_shape())) * dtype_of(t).itemsize for t in types[0])
    if bytes > MOST_CARRIED:
        raise ShapeError("branches give many bytes", found=str(bytes))
    return types[0]


def _length(sequences: Values) -> Size:
    """Return the common length of the sequences. Raises ShapeError if their lengths differ."""
    lengths = {x.shape[:1] for x in sequences}
    if len(lengths) != 1 or lengths == {()}:
        found = ", ".join(str(x.type) for x in sequences)
        raise ShapeError("sequences differ in length, or have none", found=found)
    return sequences[0].shape[0]


def _check_carried(old: Value, new: Value) -> None:
    if new.type != old.type:
        raise ShapeError(
            "a value that is carried from step to step changes its type",
            expected=str(old.type),
            found=str(new.type),
        )
