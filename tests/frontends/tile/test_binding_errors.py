"""Programs that do not fit the arrays of a call: each error word for word."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella.support.errors import TileError
from tests.frontends.tile.checks import numbers
from tests.frontends.tile.points import Array

FLOATS, MATRIX = numbers(3), numbers(3, 4)

BINDING = [
    (
        "function (A[N], B[N]) -> (R) { R = A; }",
        (FLOATS, numbers(4)),
        """
the dimension 'N' has two sizes
  where: 1:19
    function (A[N], B[N]) -> (R) { R = A; }
                      ^
  expected: 3, as in the input 'A'
  found: 4 in the input 'B'""",
    ),
    (
        "function (A[N]) -> (R) { R = A; }",
        (MATRIX,),
        """
the input 'A' has another number of dimensions
  where: 1:11
    function (A[N]) -> (R) { R = A; }
              ^
  expected: 1
  found: 2 in an array of shape (3, 4)""",
    ),
    (
        "function (A[N]) -> (R) { R = A; }",
        (np.zeros(3, np.float16),),
        """
there is no native code for the type of the input 'A'
  where: 1:11
    function (A[N]) -> (R) { R = A; }
              ^
  expected: bool, float32, float64, or an integer of 8 to 64 bits
  found: float16
  hint: convert it with x.astype(...)""",
    ),
    (
        "function (A) -> (R) { R[] = +(A[i]); }",
        (MATRIX,),
        """
'A' has another number of dimensions than of indices
  where: 1:31
    function (A) -> (R) { R[] = +(A[i]); }
                                  ^
  expected: 2, as its shape is 3x4
  found: 1""",
    ),
    (
        "function (A[N]) -> (R) { R[i, i : N] = +(A[i]); }",
        (FLOATS,),
        """
the output 'R' has another number of indices than of sizes
  where: 1:26
    function (A[N]) -> (R) { R[i, i : N] = +(A[i]); }
                             ^
  expected: 1
  found: 2""",
    ),
    (
        "function (A[N]) -> (R) { R[i] = +(A[i]); }",
        (FLOATS,),
        """
the sizes of 'R' are missing
  where: 1:26
    function (A[N]) -> (R) { R[i] = +(A[i]); }
                             ^
  expected: R[indices : sizes], or a default tensor""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N - 4] = +(A[i]); }",
        (FLOATS,),
        """
a size is negative
  where: 1:32
    function (A[N]) -> (R) { R[i : N - 4] = +(A[i]); }
                                   ^
  found: -1""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N / 2.0] = +(A[i]); }",
        (FLOATS,),
        """
not an integer
  where: 1:32
    function (A[N]) -> (R) { R[i : N / 2.0] = +(A[i]); }
                                   ^
  found: 1.5""",
    ),
    (
        "function (A[N]) -> (R) { R[i : as_int(N, 32)] = +(A[i]); }",
        (FLOATS,),
        """
not an integer
  where: 1:32
    function (A[N]) -> (R) { R[i : as_int(N, 32)] = +(A[i]); }
                                   ^
  found: a tensor""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N / (N - 3)] = +(A[i]); }",
        (FLOATS,),
        """
'/' cannot be computed: division by zero
  where: 1:34
    function (A[N]) -> (R) { R[i : N / (N - 3)] = +(A[i]); }
                                     ^
  found: 3, 0""",
    ),
    (
        "function (A[N]) -> (R) { R[i, j : 99999, 99999] = +(A[i]), j < 9; }",
        (FLOATS,),
        """
the tensor 'R' is too large
  where: 1:26
    function (A[N]) -> (R) { R[i, j : 99999, 99999] = +(A[i]), j < 9; }
                             ^
  expected: at most 17179869184 bytes and 64 dimensions
  found: 39999200004 bytes in float32[99999x99999]""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[i*i]); }",
        (FLOATS,),
        """
a product of two indices is not affine
  where: 1:42
    function (A[N]) -> (R) { R[i : N] = +(A[i*i]); }
                                             ^
  found: (i) * (i)""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[1/i]); }",
        (FLOATS,),
        """
a quotient by an index is not affine
  where: 1:42
    function (A[N]) -> (R) { R[i : N] = +(A[1/i]); }
                                             ^
  found: (1) / (i)""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[i/(N-3)]); }",
        (FLOATS,),
        """
division by zero
  where: 1:42
    function (A[N]) -> (R) { R[i : N] = +(A[i/(N-3)]); }
                                             ^
  found: (i) / 0""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[9000000000000000000*i*2]); }",
        (FLOATS,),
        """
a coefficient is too large
  where: 1:41
    function (A[N]) -> (R) { R[i : N] = +(A[9000000000000000000*i*2]); }
                                            ^
  expected: numbers of 64 bits""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[i + j - k]); }",
        (FLOATS,),
        """
the index 'j' has no bounds
  where: 1:45
    function (A[N]) -> (R) { R[i : N] = +(A[i + j - k]); }
                                                ^
  expected: dimensions or constraints that leave it a finite range
  hint: add a constraint after the contraction, such as j < 10""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = =(A[i + j]), j < 2; }",
        (FLOATS,),
        """
'=' would assign elements of 'R' more than once
  where: 1:45
    function (A[N]) -> (R) { R[i : N] = =(A[i + j]), j < 2; }
                                                ^
  expected: indices that the element of the output determines
  found: the index 'j', which it does not
  hint: aggregate with + * > or <""",
    ),
    (
        "function (A[N], T[M]) -> (R) { R[i : N] = +(A[i]) default T; }",
        (FLOATS, numbers(4)),
        """
the default 'T' does not fit 'R'
  where: 1:59
    function (A[N], T[M]) -> (R) { R[i : N] = +(A[i]) default T; }
                                                              ^
  expected: float32[3], or a shape that broadcasts
  found: float32[4]""",
    ),
    (
        "function (A[N], T[N]) -> (R) { R[i : N] = +(A[i]) default T; }",
        (FLOATS, numbers(3, dtype="int32")),
        """
the default 'T' does not fit 'R'
  where: 1:59
    function (A[N], T[N]) -> (R) { R[i : N] = +(A[i]) default T; }
                                                              ^
  expected: float32[3], or a shape that broadcasts
  found: int32[3]""",
    ),
    (
        "function (A[N], B[N, M]) -> (R) { R = A + B; }",
        (FLOATS, MATRIX),
        """
shapes do not broadcast
  where: 1:41
    function (A[N], B[N, M]) -> (R) { R = A + B; }
                                            ^
  expected: equal sizes, or 1, in each dimension counted from the last
  found: 3 and 3x4""",
    ),
    (
        "function (A[N]) -> (R) { R = (A > 0) - (A < 0); }",
        (FLOATS,),
        """
'-' is not defined for bool
  where: 1:38
    function (A[N]) -> (R) { R = (A > 0) - (A < 0); }
                                         ^
  expected: integers or floats
  hint: convert with as_int(x, 32) or as_float(x, 32)""",
    ),
    (
        "function (A[N]) -> (R) { R = A & 1; }",
        (FLOATS,),
        """
'&' is not defined for float32
  where: 1:32
    function (A[N]) -> (R) { R = A & 1; }
                                   ^
  expected: booleans or integers
  hint: convert with as_int(x, 32) or as_float(x, 32)""",
    ),
    (
        "function (A[N]) -> (R) { R = as_float(A, 16); }",
        (FLOATS,),
        """
'as_float' to a type that there is no code for
  where: 1:42
    function (A[N]) -> (R) { R = as_float(A, 16); }
                                             ^
  expected: one of 32, 64 bits
  found: 16""",
    ),
    (
        "function (A[N]) -> (R) { R = A + 200; }",
        (numbers(3, dtype="int8"),),
        """
a number does not fit into int8
  where: 1:34
    function (A[N]) -> (R) { R = A + 200; }
                                     ^
  found: 200""",
    ),
    (
        "function (A[N]) -> (R) { R = N * 4000000000; }",
        (FLOATS,),
        """
a number does not fit into int32
  where: 1:21
    function (A[N]) -> (R) { R = N * 4000000000; }
                        ^
  found: 12000000000""",
    ),
]


@pytest.mark.parametrize("program, arrays, expected", BINDING)
def test_programs_that_do_not_fit(program: str, arrays: tuple[Array, ...], expected: str) -> None:
    function = tessella.tile(program)
    for call in (function, function.lower):
        with pytest.raises(TileError) as caught:
            call(*arrays)
        assert str(caught.value) == expected.removeprefix("\n")
