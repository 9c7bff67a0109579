"""The grammar: which trees come of which texts, and what is no program."""

from __future__ import annotations

import pytest

from tessella.frontends.tile.parse import MAX_DEPTH, parse
from tessella.frontends.tile.source import MAX_LENGTH, TileText
from tessella.frontends.tile.syntax import (
    Apply,
    Assignment,
    Contraction,
    Expr,
    Literal,
    TileFunction,
    postorder,
)
from tessella.support.errors import TileError


def program(text: str) -> TileFunction:
    return parse(TileText(text))


def shown(expr: Expr) -> str:
    """An expression with all its parentheses."""
    if isinstance(expr, Literal):
        return str(expr.value)
    if not isinstance(expr, Apply):
        return expr.name
    return f"{expr.function}({', '.join(map(shown, expr.arguments))})"


def expression(text: str) -> str:
    [statement] = program(f"function (A) -> (R) {{ R = {text}; }}").statements
    assert isinstance(statement, Assignment)
    return shown(statement.value)


def contraction(text: str) -> Contraction:
    [statement] = program(f"function (A, B, C) -> (R) {{ {text}; }}").statements
    assert isinstance(statement, Contraction)
    return statement


@pytest.mark.parametrize(
    "text, tree",
    [
        ("A + B * C", "add(A, mul(B, C))"),
        ("A * B + C", "add(mul(A, B), C)"),
        ("A - B - C", "sub(sub(A, B), C)"),
        ("A / B * C", "mul(div(A, B), C)"),
        ("(A - (B - C))", "sub(A, sub(B, C))"),
        ("-A * B", "mul(neg(A), B)"),
        ("- -~A", "neg(neg(bit_not(A)))"),
        ("A << B + C", "bit_left(A, add(B, C))"),
        ("A < B >> C", "cmp_lt(A, bit_right(B, C))"),
        ("A == B < C", "cmp_eq(A, cmp_lt(B, C))"),
        ("A & B != C", "bit_and(A, cmp_ne(B, C))"),
        ("A | B & C ^ D", "bit_xor(bit_or(A, bit_and(B, C)), D)"),
        ("A ^ B ? C : D | E", "cond(bit_xor(A, B), C, bit_or(D, E))"),
        ("A ? B ? C : D : E", "cond(A, cond(B, C, D), E)"),
        ("A >= 0 ? exp(-A) : Max(A, B + 1)", "cond(cmp_ge(A, 0), exp(neg(A)), Max(A, add(B, 1)))"),
        ("1e3 + 1.5e-2 + 0.25 + 007", "add(add(add(1000.0, 0.015), 0.25), 7)"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    "text, tree",
    [
        ("2i", "mul(2, i)"),
        ("2 i + 3*j - N/2", "sub(add(mul(2, i), mul(3, j)), div(N, 2))"),
        ("-i/2 + -(j - 1)", "add(div(neg(i), 2), neg(sub(j, 1)))"),
        ("$Upper + #lower*i'", "add(Upper, mul(lower, i'))"),
    ],
)
def test_forms(text: str, tree: str) -> None:
    assert shown(contraction(f"R[] = +(A[{text}])").inputs[0].forms[0]) == tree


def test_statements() -> None:
    c = contraction(
        "R[i, 2j : N, M*2] = >(A[i] == B[] ? C[j]), i - j < N, j < 3 no_defract default A"
    )
    assert [shown(f) for f in c.target.forms] == ["i", "mul(2, j)"]
    assert [shown(s) for s in c.sizes or ()] == ["N", "mul(M, 2)"]
    assert (c.aggregation, c.combination) == (">", "?")
    assert [(t.name.name, len(t.forms)) for t in c.inputs] == [("A", 1), ("B", 0), ("C", 1)]
    assert [(shown(x.form), shown(x.bound)) for x in c.constraints] == [
        ("sub(i, j)", "N"),
        ("j", "3"),
    ]
    assert c.default is not None
    assert c.default.name == "A"


@pytest.mark.parametrize("aggregation", "+*><=")
@pytest.mark.parametrize("combination", ["", "*", "+", "=="])
def test_aggregations_and_combinations(aggregation: str, combination: str) -> None:
    inner = f"A[i] {combination} B[i]" if combination else "A[i]"
    c = contraction(f"R[i : N] = {aggregation}({inner})")
    assert (c.aggregation, c.combination, len(c.inputs)) == (
        aggregation,
        combination,
        2 if combination else 1,
    )


@pytest.mark.parametrize("text", ["R[]", "R[:]", "R[ : ]"])
def test_outputs_without_dimensions(text: str) -> None:
    c = contraction(f"{text} = +(A[i])")
    assert (c.target.forms, c.sizes) == ((), ())


def test_inputs() -> None:
    f = program("function (A, B[], C[N, M']) -> (R, A) { R = A; }")
    dims = [i.dims and [d.name for d in i.dims] for i in f.inputs]
    assert ([i.name.name for i in f.inputs], dims) == (["A", "B", "C"], [None, (), ["N", "M'"]])
    assert [o.name for o in f.outputs] == ["R", "A"]
    assert program("function () -> (R) { R = 1; }").inputs == ()


def test_attributes() -> None:
    f = program("function (A) -> (R) { [[pid(first)]] [[other]] [[more(x, y)]] S = A; R = S; }")
    assert [s.label for s in f.statements] == ["first", "R"]


def test_nodes_know_their_place() -> None:
    text = "function (A[N])\n-> (R) {\n  R[i : N] = +(A[i + 2*N - 1]);\n}"
    [statement] = program(text).statements
    assert isinstance(statement, Contraction)
    found = [text[n.span.start : n.span.end] for n in postorder(statement.inputs[0].forms[0])]
    assert found == ["i", "2", "N", "2*N", "i + 2*N", "1", "i + 2*N - 1"]


def test_depth_is_limited() -> None:
    fine, deep = MAX_DEPTH // 2, MAX_DEPTH + 1
    assert expression("(" * fine + "A" + ")" * fine) == "A"
    for text in ("(" * deep + "A" + ")" * deep, "-" * deep + "A", "A ? " * deep + "A", "f(" * deep):
        with pytest.raises(TileError, match="nested too deeply"):
            expression(text)


def test_length_is_limited() -> None:
    head, tail = "function (A) -> (R) { R = A", "; }"
    long = "+A" * ((MAX_LENGTH - len(head + tail)) // 2)
    [statement] = program(head + long + tail).statements
    assert isinstance(statement, Assignment)
    assert sum(1 for _ in postorder(statement.value)) == len(long) + 1
    with pytest.raises(TileError, match="too long"):
        program(head + long + "  " + tail)
