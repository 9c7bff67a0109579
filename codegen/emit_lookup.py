"""Code for `arith.lookup`, which selects floats from a small constant table by integer indices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tessella.codegen.lltypes import LLType, LLValue, constant, type_of, vector, vector_constant
from tessella.codegen.writer import Handler, Writer
from tessella.dialects.arith import LookupOp


def _lookup(w: Writer, op: Operation) -> None:
    assert isinstance(op, LookupOp)
    table, code, to = op.numbers, w.get(op, 0), type_of(op.result.type)
    is_permuted = (
        bool(w.target.takes_lanes)
        and to.lanes * 32 == w.target.vector_bits
        and (to.element, code.type.element) == ("f32", "i32")
    )
    w.set(op, (_permuted if is_permuted else _one_by_one)(w, table, code, to))


def _permuted(w: Writer, table: Sequence[float], code: LLValue, to: LLType) -> LLValue:
    """Select elements with an instruction that permutes lanes: from each part of the table that
    fills a vector, then between the parts by the higher bits of the index."""
    lanes = to.lanes
    whole = [*table] * max(1, lanes // len(table))
    parts = [vector_constant(to, whole[i : i + lanes]) for i in range(0, len(whole), lanes)]
    name = w.target.takes_lanes[0].format(bits=w.target.vector_bits)
    chosen = [w.call(to, name, part, code) for part in parts]
    bit = lanes
    while len(chosen) > 1:
        masked = w.binary("and", code, constant(code.type, bit))
        is_high = w.compare("icmp ne", masked, constant(code.type, 0))
        pairs = zip(chosen[::2], chosen[1::2], strict=True)
        chosen = [w.select(is_high, high, low) for low, high in pairs]
        bit *= 2
    return chosen[0]


def _one_by_one(w: Writer, table: Sequence[float], code: LLValue, to: LLType) -> LLValue:
    """Select the table's element for one lane after the other."""
    numbers = vector_constant(vector(to.element, len(table)), table)
    inside = w.binary("and", code, constant(code.type, len(table) - 1))
    if not to.lanes:
        return w.push(to, f"extractelement {numbers.typed}, {inside.typed}")
    result = LLValue(to, "poison")
    for lane in range(to.lanes):
        at = w.push(inside.type.scalar, f"extractelement {inside.typed}, i64 {lane}")
        one = w.push(to.scalar, f"extractelement {numbers.typed}, {at.typed}")
        result = w.push(to, f"insertelement {result.typed}, {one.typed}, i64 {lane}")
    return result


LOOKUP: dict[type[Operation], Handler] = {LookupOp: _lookup}
