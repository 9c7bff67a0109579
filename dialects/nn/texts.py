"""Ops on strings, which NumPy and Python compute."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from xdsl.dialects.builtin import I64, BoolAttr, IntegerAttr, StringAttr, TensorType, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn.checks import (
    BOOL,
    check_choice,
    check_integer,
    check_least,
    check_length,
    check_same_element,
    check_shape,
)
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    shape_of,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.symbolic import FindingOp, Found
from tessella.dialects.sizes import size_def, sizes_def
from tessella.support.decisions import known
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

CASES = ("NONE", "LOWER", "UPPER")


@irdl_op_definition
class StringConcatOp(NnOp):
    """The concatenation of each pair of strings, with broadcasting."""

    name = "nn.string_concat"
    lhs = operand_def(base(TensorType))
    rhs = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.lhs, self.rhs)
        return [_like(self.lhs, broadcast_shapes([*map(shape_of, self.operands)]))]


@irdl_op_definition
class StringMatchOp(NnOp):
    """True for each string that `pattern`, a regular expression of Python, matches as a whole."""

    name = "nn.string_match"
    x = operand_def(base(TensorType))
    pattern = prop_def(StringAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.x)
        return [tensor(BOOL, shape_of(self.x))]


@irdl_op_definition
class StringFindOp(NnOp):
    """The position of each string of x in the list `keys`, or the length of `keys` for a string
    that is not in the list."""

    name = "nn.string_find"
    x = operand_def(base(TensorType))
    keys = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.x, self.keys)
        _check_list(self, self.keys)
        return [tensor(i64, shape_of(self.x))]


@irdl_op_definition
class StringSplitOp(FindingOp):
    """The parts of each string along a new last dimension, padded with empty strings, and their
    number.

    A string is split at `delimiter`, at most `limit` times, or without a limit if that is
    negative. Without a delimiter, a string is split at white space, which is also removed from its
    ends.

    `%p, %c = nn.string_split %x sizes [[k]] : tensor<5x[k]x!nn.string>, tensor<5xi64>` defines the
    symbol k, the greatest number of parts.
    """

    name = "nn.string_split"
    RESULTS: ClassVar[int] = 2
    DEFAULTS: ClassVar[Defaults] = {"delimiter": "", "limit": -1}
    x = operand_def(base(TensorType))
    delimiter = prop_def(StringAttr)
    limit = prop_def(IntegerAttr[I64])
    parts = result_def(base(TensorType))
    counts = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimension of the result that has the greatest number of parts."""
        return (Found(0, len(shape_of(self.x))),)

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.x)
        shape = shape_of(self.x)
        return [_like(self.x, (*shape, *self.found_sizes())), tensor(i64, shape)]


@irdl_op_definition
class StringNormalizeOp(FindingOp):
    """The strings of a list, or of a matrix of one row, without the strings of the list `stops`,
    converted to the case `LOWER` or `UPPER`, or unchanged for the case `NONE`.

    With `sensitive`, strings are compared with `stops` before the case is changed, otherwise
    without regard to case. If no string is left, the result is one empty string.

    `%y = nn.string_normalize %x, %stops case "LOWER" sizes [[k]] : tensor<[k]x!nn.string>` defines
    the symbol k, the number of strings that are left.
    """

    name = "nn.string_normalize"
    DEFAULTS: ClassVar[Defaults] = {"case": "NONE", "sensitive": False}
    x = operand_def(base(TensorType))
    stops = operand_def(base(TensorType))
    case = prop_def(StringAttr)
    sensitive = prop_def(BoolAttr)
    res = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimension of the result that has the number of strings that are left."""
        return (Found(0, len(shape_of(self.x)) - 1),)

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.x, self.stops)
        _check_list(self, self.stops)
        check_choice(self, "case", self.settings["case"], CASES)
        *rows, _ = _words(self, self.x)
        if rows not in ([], [1]):
            raise ShapeError(
                f"{self.name}: x has several rows", expected="[C] or [1, C]", found=f"{self.x.type}"
            )
        return [_like(self.x, (*rows, *self.found_sizes()))]


@irdl_op_definition
class StringTokensOp(FindingOp):
    """The tokens of each string along a new last dimension, padded with `padding` to the longest
    row.

    Tokens are the matches of the regular expression `pattern`; without a pattern, they are the
    texts between matches of the regular expressions in the list `separators`; an empty separator
    makes each character a token. Tokens of fewer than `least` characters are left out. With
    `marks`, each row begins and ends with a mark.

    `%t = nn.string_tokens %x, %separators sizes [[k]] : tensor<5x[k]x!nn.string>` defines the
    symbol k, the length of the longest row.
    """

    name = "nn.string_tokens"
    DEFAULTS: ClassVar[Defaults] = {"pattern": "", "least": 1, "marks": False, "padding": ""}
    x = operand_def(base(TensorType))
    separators = operand_def(base(TensorType))
    pattern = prop_def(StringAttr)
    least = prop_def(IntegerAttr[I64])
    marks = prop_def(BoolAttr)
    padding = prop_def(StringAttr)
    res = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimension of the result that has the length of the longest row."""
        return (Found(0, len(shape_of(self.x))),)

    def infer(self) -> Sequence[Tensor]:
        _check_strings(self, self.x, self.separators)
        _check_list(self, self.separators)
        return [_like(self.x, (*shape_of(self.x), *self.found_sizes()))]


@irdl_op_definition
class CountNgramsOp(NnOp):
    """The counts of the n-grams of a pool in each row of x, `size` numbers in all.

    `pool` lists the elements of all n-grams: first the n-grams of one element, then from position
    `starts[1]` on the n-grams of two, and so on. `slots` has the position in the result's row of
    each n-gram's count. Up to `skips` elements of x may lie between neighbouring elements of an
    n-gram. `lengths` are the least and the greatest n.
    """

    name = "nn.count_ngrams"
    DEFAULTS: ClassVar[Defaults] = {"skips": 0}
    x = operand_def(base(TensorType))
    pool = operand_def(base(TensorType))
    slots = operand_def(base(TensorType))
    size = size_def()
    starts = sizes_def()
    lengths = sizes_def()
    skips = prop_def(IntegerAttr[I64])
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self, [self.x, self.pool])
        if element_of(self.x.type).kind != "string":
            check_integer(self, self.x)
        _check_list(self, self.pool)
        settings, count = self.settings, known(shape_of(self.pool)[0])
        check_length(self, "lengths", settings["lengths"], 2)
        check_least(self, "lengths", [settings["lengths"][0]], 1)
        check_least(self, "skips", [settings["skips"]], 0)
        steps = [b - a for a, b in pairwise((0, *settings["starts"], count))]
        check_least(self, "starts", steps, 0)
        check_shape(self, self.slots, (ngrams_in(settings["starts"], count),))
        if tensor_type(self.slots).element_type != i64:
            raise ShapeError(f"{self.name}: slots are i64", found=str(self.slots.type))
        *rows, _ = _words(self, self.x)
        return [tensor(f32, (*rows, settings["size"]))]


def ngrams_in(starts: Sequence[int], count: int) -> int:
    """Return the number of n-grams of a pool of ``count`` elements, where those of one element
    begin at ``starts[0]``, those of two at ``starts[1]``, and so on."""
    return sum((b - a) // n for n, (a, b) in enumerate(pairwise((*starts, count)), 1))


def _check_strings(op: NnOp, *values: SSAValue) -> None:
    for value in values:
        if element_of(value.type).kind != "string":
            raise ShapeError(f"{op.name} takes strings", found=str(value.type))


def _check_list(op: NnOp, value: SSAValue) -> None:
    if len(shape_of(value)) != 1:
        raise ShapeError(f"{op.name}: an operand is not a list", found=str(value.type))


def _words(op: NnOp, value: SSAValue) -> Sequence[Size]:
    """Return the shape of rows of words. Raises ShapeError for another rank."""
    shape = shape_of(value)
    if len(shape) not in (1, 2):
        raise ShapeError(
            f"{op.name}: rows of words are needed",
            expected="[C] or [N, C]",
            found=str(value.type),
        )
    return shape


def _like(value: SSAValue, shape: Sequence[Size]) -> Tensor:
    """Return the type of a tensor with the elements of ``value`` and another shape."""
    return tensor(tensor_type(value).element_type, shape)
