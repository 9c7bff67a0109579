"""Einsum as transposes, sums and matrix products of two operands at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.registry import Rule, converts
from tessella.support.errors import ShapeError


@dataclass(frozen=True)
class _Term:
    """A tensor and the letters of its dimensions, all different."""

    value: SSAValue
    letters: str


def _diagonal(node: Node) -> str | None:
    inputs = node.attributes.get("equation", "").replace(" ", "").partition("->")[0].split(",")
    repeated = any(term.count(letter) > 1 for term in inputs for letter in term if letter.isalpha())
    return "a letter twice in one operand" if repeated else None


@converts("Einsum", 12, 28, Rule("no letter twice in one operand", _diagonal))
def einsum(call: Call) -> SSAValue:
    """From left to right."""
    inputs, output = _letters(call)
    terms = [_Term(value, letters) for value, letters in zip(call.operands(), inputs, strict=True)]
    _check_sizes(terms)
    while len(terms) > 1:
        left, right, *rest = terms
        kept = set(output).union(*(term.letters for term in rest))
        terms = [_product(call, left, right, kept), *rest]
    last = _summed(call, terms[0], set(output))
    return call.transpose(last.value, [last.letters.index(letter) for letter in output])


def _letters(call: Call) -> tuple[list[str], str]:
    """The letters of the operands and the result, with letters for the dimensions of ``...``."""
    equation = call.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(call.inputs):
        raise ShapeError("the equation has another number of operands", found=repr(equation))
    free = [chr(c) for c in range(0x100, 0x200)]
    ranks = [
        len(shape_of(value)) - len(t.replace("...", ""))
        for value, t in zip(call.operands(), inputs, strict=True)
    ]
    most = max((n for n, term in zip(ranks, inputs, strict=True) if "..." in term), default=0)
    dots = "".join(free[:most])
    full = [
        term.replace("...", dots[most - n :] if n > 0 else "")
        for n, term in zip(ranks, inputs, strict=True)
    ]
    if any(len(t) != len(shape_of(v)) for t, v in zip(full, call.operands(), strict=True)):
        raise ShapeError("the equation does not fit the ranks", found=repr(equation))
    if arrow:
        output = right.replace("...", dots)
    else:
        every = "".join(full)
        output = dots + "".join(sorted(c for c in set(left) if c.isalpha() and every.count(c) == 1))
    if len(set(output)) != len(output) or not set(output) <= set("".join(full)):
        raise ShapeError("the equation's result is malformed", found=repr(equation))
    return full, output


def _check_sizes(terms: Sequence[_Term]) -> None:
    sizes: dict[str, int] = {}
    for term in terms:
        for letter, size in zip(term.letters, shape_of(term.value), strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                raise ShapeError(
                    "a letter stands for two sizes", found=f"{sizes[letter]} and {size}"
                )
            sizes[letter] = max(sizes[letter], size)


def _summed(call: Call, term: _Term, kept: set[str]) -> _Term:
    """The term summed over all letters but these."""
    axes = tuple(d for d, letter in enumerate(term.letters) if letter not in kept)
    if not axes:
        return term
    value = call.emit(nn.ReduceSumOp, term.value, axes=axes, keepdims=False)
    return _Term(value, "".join(c for c in term.letters if c in kept))


def _product(call: Call, left: _Term, right: _Term, kept: set[str]) -> _Term:
    """Two terms as one, summed over what is not kept."""
    left = _summed(call, left, kept | set(right.letters))
    right = _summed(call, right, kept | set(left.letters))
    common = [c for c in left.letters if c in right.letters]
    batch = "".join(c for c in common if c in kept)
    inner = "".join(c for c in common if c not in kept)
    rows = "".join(c for c in left.letters if c not in common)
    columns = "".join(c for c in right.letters if c not in common)
    if not inner:
        return _outer(call, left, right, batch + rows + columns)
    a, b = (
        _arranged(call, left, batch + rows + inner),
        _arranged(call, right, batch + inner + columns),
    )
    sizes = _sizes(left, right)
    a = call.expand(
        a, [sizes[c] if c in inner else shape_of(a)[i] for i, c in enumerate(batch + rows + inner)]
    )
    b = call.expand(
        b,
        [sizes[c] if c in inner else shape_of(b)[i] for i, c in enumerate(batch + inner + columns)],
    )
    n, k, m = (math.prod(sizes[c] for c in group) for group in (rows, inner, columns))
    a = call.reshape(a, (*shape_of(a)[: len(batch)], n, k))
    b = call.reshape(b, (*shape_of(b)[: len(batch)], k, m))
    product = call.emit(nn.MatmulOp, a, b, transpose_b=False)
    letters = batch + rows + columns
    return _Term(call.reshape(product, [sizes[c] for c in letters]), letters)


def _sizes(*terms: _Term) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term in terms:
        for letter, size in zip(term.letters, shape_of(term.value), strict=True):
            sizes[letter] = (
                max(size, sizes.get(letter, size)) if size and sizes.get(letter, 1) else 0
            )
    return sizes


def _arranged(call: Call, term: _Term, letters: str) -> SSAValue:
    return call.transpose(term.value, [term.letters.index(c) for c in letters])


def _outer(call: Call, left: _Term, right: _Term, letters: str) -> _Term:
    """A product without a sum: both with all dimensions, of size 1 where they lack the letter."""
    operands: list[SSAValue] = []
    for term in (left, right):
        own = [c for c in letters if c in term.letters]
        sizes = iter(shape_of(value := _arranged(call, term, "".join(own))))
        operands.append(call.reshape(value, [next(sizes) if c in own else 1 for c in letters]))
    return _Term(call.emit(nn.MulOp, *operands), letters)
