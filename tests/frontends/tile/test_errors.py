"""Every kind of error: the whole message, which points at the character."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella.frontends.tile.functions import CASTS, FUNCTIONS
from tessella.support.errors import InputError, OptionError, TileError
from tests.frontends.tile.checks import numbers
from tests.frontends.tile.points import Array

FLOATS, MATRIX = numbers(3), numbers(3, 4)
KNOWN = ", ".join(sorted([*FUNCTIONS, *CASTS]))


SYNTAX = [
    (
        "function (A[N]) -> (R) { R = A @ 2; }",
        """
unexpected character '@'
  where: 1:32
    function (A[N]) -> (R) { R = A @ 2; }
                                   ^""",
    ),
    (
        "function (A[N]) -> (R) { R = A + ; }",
        """
unexpected ';'
  where: 1:34
    function (A[N]) -> (R) { R = A + ; }
                                     ^
  expected: a number, a name, a function or '('""",
    ),
    (
        "function (A[N]) -> (R) {\n\tR = A\n}",
        """
unexpected '}'
  where: 3:1
    }
    ^
  expected: ';' after a statement""",
    ),
    (
        "function (A[N]) -> (R) {\n\tR = A",
        """
unexpected end of the program
  where: 2:7
    \tR = A
    \t     ^
  expected: ';' after a statement""",
    ),
    (
        "function (a[N]) -> (R) { R = a; }",
        """
unexpected 'a'
  where: 1:11
    function (a[N]) -> (R) { R = a; }
              ^
  expected: the name of an input
  hint: names of tensors and dimensions begin with a capital letter""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] ==(A[i]); }",
        """
unexpected '=='
  where: 1:35
    function (A[N]) -> (R) { R[i : N] ==(A[i]); }
                                      ^
  expected: '=' and an aggregation
  hint: write a space between: = =(...)""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = max(A[i]); }",
        """
unexpected 'max'
  where: 1:37
    function (A[N]) -> (R) { R[i : N] = max(A[i]); }
                                        ^
  expected: an aggregation: + * > < =""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[i] * A[i] ? A[i]); }",
        """
a condition compares with '==', not with '*'
  where: 1:44
    function (A[N]) -> (R) { R[i : N] = +(A[i] * A[i] ? A[i]); }
                                               ^""",
    ),
    (
        "function (A[N]) -> (R) { R = A < 1 < 2; }",
        """
unexpected '<'
  where: 1:36
    function (A[N]) -> (R) { R = A < 1 < 2; }
                                       ^
  expected: no second comparison
  hint: write parentheses""",
    ),
    (
        "function (A[N]) -> (R) { R = A ? A : A ? A : A; }",
        """
unexpected '?'
  where: 1:40
    function (A[N]) -> (R) { R = A ? A : A ? A : A; }
                                           ^
  expected: ';' or ')'
  hint: write parentheses around a condition within a condition""",
    ),
    (
        "function (A[N]) -> (R) { R = 12345678901234567890123456789 * A; }",
        """
a number is too large
  where: 1:30
    function (A[N]) -> (R) { R = 12345678901234567890123456789 * A; }
                                 ^
  expected: 64 bits
  found: 12345678901234567890... of 29 digits""",
    ),
    (
        "function (A[N]) -> (R) { R = " + "(" * 101 + "A; }",
        """
the expression is nested too deeply
  where: 1:130
    ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((A; }
                                                                               ^
  expected: at most 100 levels
  hint: compute parts of it in statements of their own""",
    ),
]

NAMES = [
    (
        "function (Data[N]) -> (R) { R = Date; }",
        """
unknown tensor or dimension 'Date'
  where: 1:33
    function (Data[N]) -> (R) { R = Date; }
                                    ^
  expected: one of Data, N
  hint: did you mean 'Data'?""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(A[i + M]); }",
        """
unknown dimension 'M'
  where: 1:45
    function (A[N]) -> (R) { R[i : N] = +(A[i + M]); }
                                                ^
  expected: one of N""",
    ),
    (
        "function (A[N]) -> (R) { R[i : A] = +(A[i]); }",
        """
unknown dimension 'A'
  where: 1:32
    function (A[N]) -> (R) { R[i : A] = +(A[i]); }
                                   ^
  expected: one of N
  found: a tensor of this name""",
    ),
    (
        "function (A[N]) -> (R) { R[i : N] = +(N[i]); }",
        """
unknown tensor 'N'
  where: 1:39
    function (A[N]) -> (R) { R[i : N] = +(N[i]); }
                                          ^
  expected: one of A
  found: a dimension of this name""",
    ),
    (
        "function (A[N]) -> (R) { R[i : i] = +(A[i]); }",
        """
the index 'i' has no value here
  where: 1:32
    function (A[N]) -> (R) { R[i : i] = +(A[i]); }
                                   ^
  hint: indices stand in the brackets of a contraction and left of '<' in its constraints""",
    ),
    (
        "function (A[N]) -> (R) { R = A; R = A + A; }",
        """
'R' is defined already
  where: 1:33
    function (A[N]) -> (R) { R = A; R = A + A; }
                                    ^
  expected: a name of its own: names are assigned once
  found: a tensor""",
    ),
    (
        "function (A[N]) -> (R) { S = A; }",
        """
unknown output 'R'
  where: 1:21
    function (A[N]) -> (R) { S = A; }
                        ^
  expected: one of A, N, S""",
    ),
    (
        "function (A[N]) -> (R, R) { R = A; }",
        """
the output 'R' is listed twice
  where: 1:24
    function (A[N]) -> (R, R) { R = A; }
                           ^""",
    ),
    (
        "function (A[N]) -> (R) { R = relux(A); }",
        f"""
unknown function 'relux'
  where: 1:30
    function (A[N]) -> (R) {{ R = relux(A); }}
                                 ^
  expected: one of {KNOWN}
  hint: did you mean 'relu'?""",
    ),
    (
        "function (A[N]) -> (R) { R = gather(A, A); }",
        f"""
there is no code for 'gather'
  where: 1:30
    function (A[N]) -> (R) {{ R = gather(A, A); }}
                                 ^
  expected: one of {KNOWN}""",
    ),
    (
        "function (A[N]) -> (R) { R = pow(A); }",
        """
wrong number of arguments of 'pow'
  where: 1:30
    function (A[N]) -> (R) { R = pow(A); }
                                 ^
  expected: 2 arguments
  found: 1""",
    ),
]

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
        (np.zeros(3, np.uint8),),
        """
there is no native code for the type of the input 'A'
  where: 1:11
    function (A[N]) -> (R) { R = A; }
              ^
  expected: bool, int8, int16, int32, int64, float32 or float64
  found: uint8
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
        "function (A[N]) -> (R) { R = sin(A); }",
        (FLOATS.astype(np.float64),),
        """
there is no native code of 'sin' for float64
  where: 1:30
    function (A[N]) -> (R) { R = sin(A); }
                                 ^
  hint: convert with as_float(x, 32)""",
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


@pytest.mark.parametrize("program, expected", SYNTAX + NAMES)
def test_programs_that_are_wrong(program: str, expected: str) -> None:
    with pytest.raises(TileError) as caught:
        tessella.tile(program)
    assert str(caught.value) == expected.removeprefix("\n")


@pytest.mark.parametrize("program, arrays, expected", BINDING)
def test_programs_that_do_not_fit(program: str, arrays: tuple[Array, ...], expected: str) -> None:
    function = tessella.tile(program)
    for call in (function, function.lower):
        with pytest.raises(TileError) as caught:
            call(*arrays)
        assert str(caught.value) == expected.removeprefix("\n")


def test_line_and_column() -> None:
    with pytest.raises(TileError) as caught:
        tessella.tile("function (A[N]) -> (R) {\n  S = A;\n  R = T;\n}")
    assert (caught.value.line, caught.value.column) == (3, 7)


def test_programs_that_are_too_long() -> None:
    with pytest.raises(TileError) as caught:
        tessella.tile(" " * 70000)
    assert str(caught.value) == (
        "the program is too long\n  where: 1:1\n    \n    ^\n"
        "  expected: at most 65536 characters\n  found: 70000"
    )


def test_limits_of_the_index_maths() -> None:
    indices = [f"i{n}" for n in range(40)]
    constraints = ", ".join(f"{index} < 2" for index in indices)
    one_form = f"function (A[N]) -> (R) {{ R[] = +(A[{'+'.join(indices)}]), i0 < 2; }}"
    with pytest.raises(TileError, match="too many indices") as caught:
        tessella.tile(one_form)(FLOATS)
    assert (caught.value.line, caught.value.column) == (1, 36)
    many_forms = f"function (A[N]) -> (R) {{ R[] = +(A[i0]), {constraints}; }}"
    with pytest.raises(TileError, match="too many indices") as caught:
        tessella.tile(many_forms)(FLOATS)
    assert (caught.value.line, caught.value.column) == (1, 26)


def test_arguments() -> None:
    f = tessella.tile("function (A[N], B[N]) -> (R) { R = A + B; }")
    for args, kwargs, found in (
        ((FLOATS,), {}, "1 by position"),
        ((FLOATS, FLOATS, FLOATS), {}, "3 by position"),
        ((FLOATS,), {"C": FLOATS}, "1 by position, C=..."),
        ((FLOATS,), {"A": FLOATS}, "1 by position, A=..."),
    ):
        with pytest.raises(InputError) as caught:
            f(*args, **kwargs)
        assert (caught.value.expected, caught.value.found) == ("A, B", found)
    with pytest.raises(InputError, match="the argument 'B' is not an array"):
        f(FLOATS, [[1], [1, 2]])
    with pytest.raises(InputError, match="a Tile program must be a string"):
        tessella.tile(3)  # pyright: ignore[reportArgumentType]


def test_options() -> None:
    program = "function (A[N]) -> (R) { R = A; }"
    with pytest.raises(OptionError, match="unknown"):
        tessella.tile(program, places=["x87"])
    with pytest.raises(OptionError):
        tessella.tile(program, target="z80")
    with pytest.raises(OptionError, match="needs another place") as caught:
        tessella.tile(program, target="avx2", places=["x86/f64", "host"]).lower(FLOATS)
    assert caught.value.expected == "x86/f32 among the places"


@pytest.mark.parametrize("shift", ["8 << -1", "8 >> -1", "8 << 64", "-8 >> N - 5"])
def test_shifts_of_numbers_by_no_number_of_bits(shift: str) -> None:
    program = tessella.tile(f"function (A[N]) -> (R) {{ R = A + ({shift}); }}")
    with pytest.raises(TileError, match="a shift by fewer than 0 or more than 63 bits"):
        program(FLOATS)


KNOWN_AND_COMPUTED = [
    *("relu({a}) / 2", "sign({a}) / 2", "(relu({a}) + 1) / 2", "floor({a} / 2) / 2"),
    *("ceil({a}) / 2", "round({a}) / 2", "({a} < 2 ? 1 : 2) / 2", "-{a} / 2", "abs({a}) / 2"),
    *("~({a} < 2) ? 1 : 2", "({a} < 2) + (2 < 3)", "({a} < 2) * 3", "({a} < 2) == (1 < 2)"),
    *("({a} < 2) + {a}", "max({a} < 2, 2 < 1)", "(({a} < 2) & (1 < 2)) + 1", "{a} != 0.5"),
    *("{a} / 3", "mad({a}, 2, 1) / 2", "exp({a}) * 2", "pow({a}, 2) / 3", "sqrt({a} * {a}) / 3"),
    *("({a} < 2 ? (1 < 2) : (2 < 1)) + (3 < 4)", "({a} > 1 ? {a} : 2) / 4"),
]


@pytest.mark.parametrize("text", KNOWN_AND_COMPUTED)
@pytest.mark.parametrize("value", [-1.5, 0.5, 7.0, -3, 0, 7])
def test_numbers_are_what_they_are_in_tensors(text: str, value: float) -> None:
    """Numbers that are known beforehand keep their kind, as the elements of tensors do."""
    known = tessella.tile(f"function (A) -> (R) {{ R = {text.format(a=value)}; }}")
    computed = tessella.tile(f"function (A, B) -> (R) {{ R = {text.format(a='B')}; }}")
    b = np.asarray(value, np.int32 if isinstance(value, int) else np.float32)
    result, wanted = known(FLOATS), computed(FLOATS, b)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        *("9223372036854775807 + N", "N - 9223372036854775807 - 9", "-(-9223372036854775807 - 1)"),
        *("4294967296 * 4294967296", "mad(4294967296, 4294967296, N)", "3 << 62", "1e300 * 1e10"),
        *("exp(1000)", "log(N - N)", "sqrt(-1)", "recip(0)", "asin(N)"),
    ],
)
def test_numbers_that_are_not_there(text: str) -> None:
    program = tessella.tile(f"function (A[N]) -> (R) {{ R = A + ({text}); }}")
    with pytest.raises(TileError, match="cannot be computed: the result is"):
        program(FLOATS)
