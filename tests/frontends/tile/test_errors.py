"""Every kind of error: the whole message, which points at the character."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella.frontends.tile.functions import CASTS, FUNCTIONS
from tessella.frontends.tile.tensor_functions import TENSOR_FUNCTIONS
from tessella.support.errors import InputError, OptionError, TileError
from tests.frontends.tile.checks import numbers

FLOATS, MATRIX = numbers(3), numbers(3, 4)
KNOWN = ", ".join(sorted([*FUNCTIONS, *CASTS, *TENSOR_FUNCTIONS]))


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
        "function (A[N]) -> (R) { R = reverse_grad(A); }",
        f"""
there is no code for 'reverse_grad'
  where: 1:30
    function (A[N]) -> (R) {{ R = reverse_grad(A); }}
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


@pytest.mark.parametrize("program, expected", SYNTAX + NAMES)
def test_programs_that_are_wrong(program: str, expected: str) -> None:
    with pytest.raises(TileError) as caught:
        tessella.tile(program)
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
