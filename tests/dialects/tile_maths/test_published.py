"""Contractions whose flat form is published: in the tests of PlaidML 0.7 (`tile/lang/lang_test.cc`)
and in an article on its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tessella.dialects.tile.maths import Affine, Bounded, normalize
from tessella.support.decisions import known
from tests.dialects.tile_maths.strides import StrideTable, stride_table

i, j, k, n, x, y, ci, co = map(Affine.of, "i j k n x y ci co".split())

Tensors = Sequence[tuple[Sequence[Affine], Sequence[int]]]


def table(tensors: Tensors, constraints: Sequence[Bounded] = ()) -> StrideTable:
    return stride_table(normalize(tensors, constraints), [s for _, s in tensors])


def strides(flat: StrideTable, tensor: int) -> list[int]:
    return [known(flat.accesses[tensor].stride(name)) for name in flat.names]


def inequalities(flat: StrideTable) -> set[tuple[tuple[int, ...], int]]:
    return {
        (tuple(form.coefficient(name) for name in flat.names), bound)
        for form, bound in flat.constraints
    }


def test_convolution_of_the_article() -> None:
    tensors = [
        ([n, x, y, co], [32, 224, 224, 64]),
        ([n, x + i - 1, y + j - 1, ci], [32, 224, 224, 64]),
        ([i, j, co, ci], [3, 3, 64, 64]),
    ]
    normal = normalize(tensors)
    flat = table(tensors)
    assert flat.names == ("ci", "co", "i", "j", "n", "x", "y")
    assert flat.ranges == (64, 64, 3, 3, 32, 224, 224)
    assert [strides(flat, tensor) for tensor in range(3)] == [
        [0, 1, 0, 0, 3211264, 14336, 64],
        [1, 0, 14336, 64, 3211264, 14336, 64],
        [1, 64, 12288, 4096, 0, 0, 0],
    ]
    assert [access.offset for access in flat.accesses] == [0, -14400, 0]
    assert [f"0 <= {form} < {extent}" for form, extent in normal.constraints] == [
        "0 <= x + i - 1 < 224",
        "0 <= y + j - 1 < 224",
    ]


def test_product_over_all() -> None:
    flat = table([([], []), ([x, y], [100, 128])])
    assert (flat.names, flat.ranges, flat.constraints) == (("x", "y"), (100, 128), ())
    assert [strides(flat, tensor) for tensor in range(2)] == [[0, 0], [128, 1]]


def test_matrix_product() -> None:
    flat = table([([i, j], [100, 128]), ([i, k], [100, 128]), ([k, j], [128, 128])])
    assert (flat.names, flat.ranges, flat.constraints) == (("i", "j", "k"), (100, 128, 128), ())
    assert [strides(flat, t) for t in range(3)] == [[128, 1, 0], [128, 0, 1], [0, 1, 128]]


def test_unpool_with_overlap() -> None:
    flat = table([([2 * x + i], [100]), ([x], [50])], [Bounded(i, 4)])
    assert flat.names == ("v0_0", "v0_1", "v1_0")
    assert flat.ranges == (2, 50, 2)
    assert [strides(flat, tensor) for tensor in range(2)] == [[1, 2, 0], [0, 1, -1]]
    assert [access.offset for access in flat.accesses] == [0, 0]
    assert inequalities(flat) == {((0, -1, 1), 0)}


def test_unpool_without_overlap() -> None:
    flat = table([([2 * x + i], [100]), ([x], [50])], [Bounded(i, 2)])
    assert (flat.names, flat.ranges, flat.constraints) == (("v0_0", "v0_1"), (2, 50), ())
    assert [strides(flat, tensor) for tensor in range(2)] == [[1, 2], [0, 1]]


def test_derivative_of_a_strided_convolution() -> None:
    flat = table(
        [
            ([n, i + x, j + 2 * y, ci], [1, 3, 6, 1]),
            ([n, x, y, co], [1, 2, 3, 1]),
            ([i, j, ci, co], [2, 2, 1, 1]),
        ]
    )
    assert flat.names == ("v1_0", "v2_0", "v2_1", "v5_0")
    assert flat.ranges == (3, 2, 3, 2)
    assert [strides(flat, tensor) for tensor in range(3)] == [
        [6, 1, 2, 0],
        [0, 0, 1, 3],
        [2, 1, 0, -2],
    ]
    assert inequalities(flat) == {((-1, 0, 0, 1), 0), ((1, 0, 0, -1), 1)}


def test_products_with_constraints() -> None:
    flat = table(
        [([i, j], [100, 128]), ([i + 2, k], [100, 128]), ([k, j], [128, 128])],
        [Bounded(k, 50), Bounded(i + j, 75)],
    )
    assert (flat.names, flat.ranges) == (("i", "j", "k"), (75, 75, 50))
    assert [strides(flat, t) for t in range(3)] == [[128, 1, 0], [128, 0, 1], [0, 1, 128]]
    assert [access.offset for access in flat.accesses] == [0, 256, 0]
    assert inequalities(flat) == {((1, 1, 0), 74)}


@pytest.mark.parametrize("size", range(35, 100, 2))
def test_subdivision(size: int) -> None:
    flat = table([([i], [2 * size]), ([i / 2 + k / 2], [size]), ([k], [5])])
    assert flat.ranges == (2, size, 3)


@pytest.mark.parametrize("a", range(1, 4))
@pytest.mark.parametrize("b", range(3, 6))
@pytest.mark.parametrize("size", range(45, 55))
def test_mixed_strides(a: int, b: int, size: int) -> None:
    flat = table([([a * i], [size]), ([b * i], [size])])
    assert flat.ranges == (min(-(-size // a), -(-size // b)),)
    assert [strides(flat, tensor) for tensor in range(2)] == [[a], [b]]
    assert flat.constraints == ()


@pytest.mark.parametrize(
    "form, size, expected",
    [(i, 10, 10), (2 * i, 5, 5), (i - 5, 10, 5)],
    ids=["duplicate", "parallel", "overlapped"],
)
def test_constraints_on_one_index(form: Affine, size: int, expected: int) -> None:
    flat = table([([i], [size]), ([form], [10])])
    assert (flat.ranges, flat.constraints) == ((expected,), ())


@pytest.mark.parametrize(
    "inputs, ranges",
    [
        ([([i / 3 + j, i / 2], [150] * 2), ([i / 18], [150])], (12, 13, 13)),
        ([([i / 3 + j, i / 2 + k, i / 18 + k], [150] * 3)], (12, 13, 13, 150)),
        ([([i / 3 + j, i / 2 + k, i / 18 - k], [150] * 3)], (12, 13, 13, 150)),
    ],
    ids=["parallel", "parallel 3D", "not parallel 3D"],
)
def test_constraints_with_fractions(inputs: Tensors, ranges: tuple[int, ...]) -> None:
    flat = table([([i / 5 + j], [150]), *inputs])
    assert flat.ranges == ranges
    assert len(flat.constraints) == 4


def test_dimensions_of_one() -> None:
    a, b, c, d = (Affine.of(f"n{at}") for at in range(4))
    flat = table([([a, c, d], [77, 2, 3]), ([a, b, c, d], [77, 1, 2, 3])])
    assert (flat.names, flat.ranges) == (("n0", "n2", "n3"), (77, 2, 3))


def test_infeasible() -> None:
    """PlaidML refuses it; here the space is empty."""
    assert normalize([([2 * i], [50]), ([4 * i], [50])], [Bounded(i - 100, 50)]).empty
