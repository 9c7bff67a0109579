"""The converter of Einsum to transposes, sums and matrix products of two operands at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


@dataclass(frozen=True)
class _Term:
    """A tensor, and the letter of each of its dimensions; all letters are different."""

    value: Value
    letters: str


@converts("Einsum", 12, 28, complex=True)
def einsum(call: Call) -> Value:
    """Emit an Einsum, contracting two operands at a time from left to right."""
    inputs, output = _letters(call)
    pairs = zip(call.operands(), inputs, strict=True)
    terms = [_diagonal(call, value, letters) for value, letters in pairs]
    _check_sizes(terms)
    while len(terms) > 1:
        left, right, *rest = terms
        kept = set(output).union(*(term.letters for term in rest))
        terms = [_product(left, right, kept), *rest]
    last = _summed(terms[0], set(output))
    return _arranged(last, output)


def _letters(call: Call) -> tuple[list[str], str]:
    """Return the letters of the dimensions of each operand and of the result; dimensions of ``...``
    get their own letters."""
    equation = call.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(call.inputs):
        raise ShapeError(
            "the equation has another number of operands",
            expected=f"{len(call.inputs)} terms",
            found=repr(equation),
        )
    free = [chr(c) for c in range(0x100, 0x200)]
    ranks = [
        value.rank - len(t.replace("...", ""))
        for value, t in zip(call.operands(), inputs, strict=True)
    ]
    most = max((n for n, term in zip(ranks, inputs, strict=True) if "..." in term), default=0)
    dots = "".join(free[:most])
    full = [
        term.replace("...", dots[most - n :] if n > 0 else "")
        for n, term in zip(ranks, inputs, strict=True)
    ]
    if any(len(t) != v.rank for t, v in zip(full, call.operands(), strict=True)):
        found = ", ".join(str(value.type) for value in call.operands())
        raise ShapeError(
            "the equation does not fit the ranks",
            expected="a letter for each dimension, or '...' for all others",
            found=f"{equation!r} for {found}",
        )
    if arrow:
        output = right.replace("...", dots)
    else:
        every = "".join(full)
        output = dots + "".join(sorted(c for c in set(left) if c.isalpha() and every.count(c) == 1))
    if len(set(output)) != len(output) or not set(output) <= set("".join(full)):
        raise ShapeError(
            "the equation's result is malformed",
            expected="distinct letters, each of an operand",
            found=repr(equation),
        )
    return full, output


def _diagonal(call: Call, value: Value, letters: str) -> _Term:
    """Return an operand as a term: of dimensions with the same letter, the elements at equal
    positions. Raises ShapeError if these dimensions differ in size."""
    for axis, letter in reversed([*enumerate(letters)]):
        first = letters.index(letter)
        if first == axis:
            continue
        size, rank = value.shape[axis], value.rank
        if value.shape[first] != size:
            raise ShapeError(
                "a letter stands for two sizes",
                expected="one size for a letter",
                found=f"{value.shape[first]} and {size}",
            )
        is_equal = call.positions(size, first, rank).equals(call.positions(size, axis, rank))
        value = where(is_equal, value, 0).sum([axis])
        letters = letters[:axis] + letters[axis + 1 :]
    return _Term(value, letters)


def _check_sizes(terms: Sequence[_Term]) -> None:
    sizes: dict[str, Size] = {}
    for term in terms:
        for letter, size in zip(term.letters, term.value.shape, strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (size, sizes[letter]):
                raise ShapeError(
                    "a letter stands for two sizes",
                    expected="one size for a letter",
                    found=f"{sizes[letter]} and {size}",
                )
            if size != 1:
                sizes[letter] = size


def _summed(term: _Term, kept: set[str]) -> _Term:
    """Sum a term over the dimensions whose letters are not in ``kept``."""
    axes = [d for d, letter in enumerate(term.letters) if letter not in kept]
    if not axes:
        return term
    return _Term(term.value.sum(axes), "".join(c for c in term.letters if c in kept))


def _product(left: _Term, right: _Term, kept: set[str]) -> _Term:
    """Multiply two terms and sum over the dimensions whose letters are not in ``kept``."""
    left = _summed(left, kept | set(right.letters))
    right = _summed(right, kept | set(left.letters))
    common = [c for c in left.letters if c in right.letters]
    batch = "".join(c for c in common if c in kept)
    inner = "".join(c for c in common if c not in kept)
    rows = "".join(c for c in left.letters if c not in common)
    columns = "".join(c for c in right.letters if c not in common)
    if not inner:
        return _outer(left, right, batch + rows + columns)
    sizes = _sizes(left, right)
    a = _matrices(left, batch, rows + inner, inner, sizes)
    b = _matrices(right, batch, inner + columns, inner, sizes)
    n, k, m = (math.prod(sizes[c] for c in group) for group in (rows, inner, columns))
    a = a.reshape((*a.shape[: len(batch)], n, k))
    b = b.reshape((*b.shape[: len(batch)], k, m))
    letters = batch + rows + columns
    return _Term((a @ b).reshape([sizes[c] for c in letters]), letters)


def _matrices(term: _Term, batch: str, others: str, inner: str, sizes: Mapping[str, Size]) -> Value:
    """Transpose a term's dimensions to the order ``batch``, ``others``, and expand those in
    ``inner``, which the product sums over, to full size."""
    value, letters = _arranged(term, batch + others), batch + others
    return value.expand([sizes[c] if c in inner else value.shape[i] for i, c in enumerate(letters)])


def _sizes(left: _Term, right: _Term) -> Mapping[str, Size]:
    """Return the size of each letter in two terms. If one of them has size 1, the other one
    counts."""
    a, b = (dict(zip(term.letters, term.value.shape, strict=True)) for term in (left, right))
    return {**a, **{c: size for c, size in b.items() if size != 1 or c not in a}}


def _arranged(term: _Term, letters: str) -> Value:
    return term.value.transpose([term.letters.index(c) for c in letters])


def _outer(left: _Term, right: _Term, letters: str) -> _Term:
    """Multiply two terms elementwise, with the dimensions ``letters``; a dimension that a term
    lacks has size 1 there."""
    return _Term(_widened(left, letters) * _widened(right, letters), letters)


def _widened(term: _Term, letters: str) -> Value:
    own = [c for c in letters if c in term.letters]
    value = _arranged(term, "".join(own))
    sizes = iter(value.shape)
    return value.reshape([next(sizes) if c in own else 1 for c in letters])
