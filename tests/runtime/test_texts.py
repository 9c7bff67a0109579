"""Arrays of strings as bytes and as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.runtime import elements, texts
from tessella.runtime.texts import STRING
from tessella.support.errors import ExecutionError, InvalidModelError


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 4)])
def test_strings_as_bytes(shape: tuple[int, ...]) -> None:
    words = ["", "a\0b", "größe", "日本", '"', "\\" * 40]
    x = np.array(words[: int(np.prod(shape))], STRING).reshape(shape)
    for data, again in (
        (elements.bytes_of(x), elements.of_bytes),
        (elements.packed(x), elements.unpacked),
    ):
        assert data.dtype == np.uint8
        found = again(data, shape, STRING)
        assert found.dtype == STRING
        assert found.shape == shape
        assert found.tolist() == x.tolist()


@pytest.mark.parametrize(
    "data",
    [b"", b"[", b'["a"]', b'["a", 1]', b'["a", "b", "c"]', b"{}", b"3", b"\xff", b"[" * 10**5],
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(InvalidModelError, match="strings cannot be read"):
        texts.decoded(np.frombuffer(data, np.uint8), (2,))


def test_integers_are_exact_and_saturate() -> None:
    x = np.array(["18446744073709551615", "-1", "1e300"], STRING)
    found = texts.to_numbers(x, np.dtype(np.uint64))
    assert found.tolist() == [(1 << 64) - 1, 0, (1 << 64) - 1]


@pytest.mark.parametrize("text", ["", "one", "nan", "inf"])
def test_strings_that_are_no_integers(text: str) -> None:
    with pytest.raises(ExecutionError, match="not a number"):
        texts.to_numbers(np.array([text], STRING), np.dtype(np.int32))


def test_numbers_of_each_width_are_identified() -> None:
    x = np.array([0.1, 1e-5, 3e4])
    for dtype, wanted in {
        "float16": ["0.1", "0.00001", "30000.0"],
        "float64": ["0.1", "0.00001", "30000.0"],
    }.items():
        found = texts.from_numbers(x.astype(dtype))
        assert found.tolist() == wanted
        assert found.astype(float).astype(dtype).tolist() == x.astype(dtype).tolist()


@pytest.mark.parametrize("name", ["bf16", "f8E5M2", "i4"])
def test_conversions_from_and_to_other_elements(name: str) -> None:
    x = elements.converted(np.array([1.0, -2.0, 3.0]), elements.DTYPES[name])
    text = elements.converted(x, STRING)
    assert text.dtype == STRING
    np.testing.assert_array_equal(elements.converted(text, x.dtype), x)
