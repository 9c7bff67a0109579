"""The code of the control flow in kernels: the ops of `scf`, `affine.apply`, and those ops of `rt`
that occur in kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import affine, scf
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr
from xdsl.ir import Block, Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from tessella.codegen.addresses import Scope
from tessella.codegen.emit_vector import iota
from tessella.codegen.lltypes import I64, LLValue, constant, type_of
from tessella.codegen.sizes import floor_divide, size_value
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.dialects.sizes import SizeOp, is_static
from tessella.support.decisions import known
from tessella.support.errors import InternalError
from tessella.support.sizes import bounds_of

FIRST_LOOP = 2
"""The number of the first metadata node that a module may use for loops."""


def _yielded(w: Writer, block: Block) -> list[LLValue]:
    last = block.last_op
    if not isinstance(last, scf.YieldOp):
        raise InternalError("a region of scf does not end with scf.yield")
    return [w.get(last, i) for i in range(len(last.operands))]


def _for(w: Writer, op: Operation) -> None:
    """Write a loop as blocks: the head with phis and the test, the body, the exit. The phis of the
    carried values are the loop's results."""
    lower, upper, step = w.get(op, 0), w.get(op, 1), w.get(op, 2)
    initial = [w.get(op, i) for i in range(3, len(op.operands))]
    block = op.regions[0].block
    head, body, done = w.label("head"), w.label("body"), w.label("done")
    before = w.block
    scope = Scope(block, op.operands[0], int(step.text)) if step.is_constant else Scope(block)
    w.scopes.append(scope)
    start = len(w.lines)
    w.line(f"br label %{head}")
    w.start(head)
    counter = LLValue(lower.type, w.name())
    carried = [LLValue(value.type, w.name()) for value in initial]
    place = len(w.lines)
    inside = w.compare("icmp slt", counter, upper)
    w.line(f"br {inside.typed}, label %{body}, label %{done}")
    w.start(body)
    w.values.update(zip(block.args, (counter, *carried), strict=True))
    w.walk(block)
    following = w.push(counter.type, f"add nsw {counter.typed}, {step.text}")
    w.lines += [f"  {name}.next = {text}" for name, _, text in scope.stepping]
    latch = w.block
    w.line(f"br label %{head}{_unrolling(w, op)}")
    # The incoming values of the back edge are known only now.
    nexts = (following, *_yielded(w, block))
    phis = [
        (phi.text, phi.type.text, a.text, b.text)
        for phi, a, b in zip((counter, *carried), (lower, *initial), nexts, strict=True)
    ]
    phis += [(name, "ptr", first, f"{name}.next") for name, first, _ in scope.stepping]
    w.lines[place:place] = [
        f"  {name} = phi {kind} [ {a}, %{before} ], [ {b}, %{latch} ]" for name, kind, a, b in phis
    ]
    w.lines[start:start] = scope.before
    w.scopes.pop()
    w.start(done)
    w.values.update(zip(op.results, carried, strict=True))


def _unrolling(w: Writer, op: Operation) -> str:
    """Return the suffix of a loop's branch instruction: a reference to metadata that requests the
    loop's unroll factor, or that forbids unrolling if the factor is 0. Empty if the loop has no
    factor."""
    count = op.attributes.get(rt.UNROLL)
    if not isinstance(count, IntegerAttr):
        return ""
    number = FIRST_LOOP + 2 * len(w.metadata)
    wish = f'count", i32 {count.value.data}' if count.value.data else 'disable"'
    w.metadata.append(
        f"!{number} = distinct !{{!{number}, !{number + 1}}}\n"
        f'!{number + 1} = !{{!"llvm.loop.unroll.{wish}}}'
    )
    return f", !llvm.loop !{number}"


def _if(w: Writer, op: Operation) -> None:
    condition = w.get(op, 0)
    then, otherwise = op.regions
    yes, no, done = w.label("then"), w.label("else"), w.label("done")
    has_else = bool(otherwise.blocks)
    w.line(f"br {condition.typed}, label %{yes}, label %{no if has_else else done}")
    w.start(yes)
    w.scopes.append(Scope(then.block))
    w.walk(then.block)
    w.scopes.pop()
    first, first_block = _yielded(w, then.block), w.block
    w.line(f"br label %{done}")
    if has_else:
        w.start(no)
        w.scopes.append(Scope(otherwise.block))
        w.walk(otherwise.block)
        w.scopes.pop()
        second, second_block = _yielded(w, otherwise.block), w.block
        w.line(f"br label %{done}")
        w.start(done)
        for result, a, b in zip(op.results, first, second, strict=True):
            arms = f"[ {a.text}, %{first_block} ], [ {b.text}, %{second_block} ]"
            w.values[result] = w.push(a.type, f"phi {a.type.text} {arms}")
    else:
        w.start(done)


# ** affine maps: all on i64, and none of them may overflow (nsw) **


def _modulo(w: Writer, a: LLValue, divisor: int) -> LLValue:
    """Return the remainder of a division by a positive number that is rounded down: it is never
    negative."""
    if divisor & (divisor - 1) == 0:
        return w.binary("and", a, constant(I64, divisor - 1))
    remainder = w.binary("srem", a, constant(I64, divisor))
    negative = w.compare("icmp slt", remainder, constant(I64, 0))
    return w.select(negative, w.binary("add nsw", remainder, constant(I64, divisor)), remainder)


def _ceil_divide(w: Writer, a: LLValue, divisor: int) -> LLValue:
    return floor_divide(w, w.binary("add nsw", a, constant(I64, divisor - 1)), divisor)


_BY_CONSTANT: dict[AffineBinaryOpKind, Callable[[Writer, LLValue, int], LLValue]] = {
    AffineBinaryOpKind.FloorDiv: floor_divide,
    AffineBinaryOpKind.CeilDiv: _ceil_divide,
    AffineBinaryOpKind.Mod: _modulo,
}
_PLAIN = {AffineBinaryOpKind.Add: "add nsw", AffineBinaryOpKind.Mul: "mul nsw"}


def _expression(
    w: Writer, expr: AffineExpr, dims: Sequence[LLValue], symbols: Sequence[LLValue]
) -> LLValue:
    # Compare with `type`: `isinstance` is slow on these abstract classes, and this code is hot.
    if type(expr) is AffineDimExpr:
        return dims[expr.position]
    if type(expr) is AffineConstantExpr:
        return constant(I64, expr.value)
    if type(expr) is AffineSymExpr:
        return symbols[expr.position]
    if type(expr) is not AffineBinaryOpExpr:
        raise InternalError(f"unknown affine expression {expr}")
    left = _expression(w, expr.lhs, dims, symbols)
    if expr.kind in _PLAIN:
        return w.binary(_PLAIN[expr.kind], left, _expression(w, expr.rhs, dims, symbols))
    if not isinstance(expr.rhs, AffineConstantExpr) or expr.rhs.value <= 0:
        raise InternalError(
            f"affine expression {expr} divides by something else than a positive constant"
        )
    return _BY_CONSTANT[expr.kind](w, left, expr.rhs.value)


def _apply(w: Writer, op: Operation) -> None:
    if op in w.indices.unused:
        return
    attribute = op.properties["map"]
    assert isinstance(attribute, AffineMapAttr)
    map_ = attribute.data
    if len(map_.results) != 1:
        raise InternalError("affine.apply needs a map with one result", where=str(op))
    operands = [w.get(op, i) for i in range(len(op.operands))]
    dims, symbols = operands[: map_.num_dims], operands[map_.num_dims :]
    w.set(op, _expression(w, map_.results[0], dims, symbols))


# ** rt **


def _context(w: Writer, op: Operation) -> None:
    w.buffers[op.results[0]] = "%context"


def _check(w: Writer, op: Operation) -> None:
    """Write a check. If it fails, its code becomes the status in the thread's context, unless an
    earlier failure has set the status."""
    code = op.properties["code"]
    assert isinstance(code, IntegerAttr)
    failed, done = w.label("failed"), w.label("done")
    # Branch weights mark the failure as unlikely and move it out of the loop's code.
    w.line(f"br {w.get(op, 0).typed}, label %{done}, label %{failed}, !prof !0")
    w.start(failed)
    w.line(f"cmpxchg ptr %context, i64 0, i64 {code.value.data + 1} monotonic monotonic, align 8")
    w.line(f"br label %{done}")
    w.start(done)


def _share(w: Writer, op: Operation) -> None:
    """Write the computation of a thread's share of a range: the share ends where that of the next
    thread begins (``rt.Share.begin``)."""
    assert isinstance(op, rt.ShareOp)
    share, thread, threads = op.share, w.get(op, 0), w.get(op, 1)
    grains, units = (size_value(w, size) for size in (share.units * share.ranges, share.units))
    range_, grain = size_value(w, share.range), size_value(w, share.grain)
    last = _last(w, share)
    if bounds_of(share.units)[0] == 0:  # an empty range has no units
        units = w.call(I64, "llvm.umax.i64", units, constant(I64, 1))

    def begin(number: LLValue) -> LLValue:
        scaled = w.binary("mul nsw", number, grains)
        unit = w.binary("udiv", scaled, threads)
        before = w.binary("udiv", unit, units)
        unit = w.binary("urem", unit, units)
        unit = w.call(I64, "llvm.umin.i64", unit, last)
        start = w.binary("mul nsw", before, range_)
        unit = w.binary("mul nsw", unit, grain)
        return w.binary("add nsw", start, unit)

    w.values[op.first] = begin(thread)
    w.values[op.stop] = begin(w.binary("add nsw", thread, constant(I64, 1)))


def _last(w: Writer, share: rt.Share) -> LLValue:
    """Return the number of the last grain (the unit by which threads divide a range) at which a
    thread's share may begin.

    For a symbolic length, this is the last whole grain, or the first grain if none is whole.
    """
    if is_static((share.range, share.grain)):
        return constant(I64, known(share.last))
    last = size_value(w, share.range // share.grain - 1)
    return w.call(I64, "llvm.smax.i64", last, constant(I64, 0))


def _size(w: Writer, op: Operation) -> None:
    assert isinstance(op, SizeOp)
    w.set(op, size_value(w, op.value))


def _iota(w: Writer, op: Operation) -> None:
    w.set(op, iota(type_of(op.results[0].type)))


def _nothing(w: Writer, op: Operation) -> None:
    """Write nothing: the enclosing op reads the operands of its terminator."""


CONTROL: dict[type[Operation], Handler] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    affine.ApplyOp: _apply,
    rt.ContextOp: _context,
    rt.CheckOp: _check,
    rt.IotaOp: _iota,
    rt.ShareOp: _share,
    SizeOp: _size,
    rt.ReturnOp: _nothing,
}
