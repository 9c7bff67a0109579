"""Attention, MultiHeadAttention and RotaryEmbedding as in ONNX Runtime, over masks, caches and
attributes; each attention is one `nn.attention`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessella
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.contributed.cases import Array, Case, check, close, made
from tests.models import run_onnxruntime
from tests.native import normal

HEADS, SIZE, PAST = 2, 8, 3
WIDTH = HEADS * SIZE
X, W, BIAS = normal(2, 4, 10), normal(10, 3 * WIDTH, seed=1), normal(3 * WIDTH, seed=2)
STATE = normal(2, 2, HEADS, PAST, SIZE, seed=3)


def numbers(*values: int) -> Array:
    return np.array(values, np.int32)


def shown(*shape: int, seed: int = 0) -> Array:
    """Return a mask of 0 and 1."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.int32)


MASKS = {
    "keys": np.array([[1, 1, 1, 0], [0, 1, 1, 1]], np.int32),
    "scores": shown(2, 4, 4),
    "ends": numbers(3, 2),
    "ends and starts": numbers(3, 4, 1, 2),
    "ends and more": numbers(3, 4, 0, 4, 8, 0, 3, 7),
    "hidden rows": np.array([[0, 0, 0, 0], [0, 0, 1, 1]], np.int32),
}
PAST_MASK = np.array([[1] * 7, [0, 0, 1, 1, 1, 1, 0]], np.int32)


def attention(*operands: Array | None, outputs: int = 1, **attributes: object) -> Case:
    inputs = (0, 4) if len(operands) > 4 and operands[4] is not None else (0,)
    given = {"num_heads": HEADS, **attributes}
    return Case("Attention", operands, given, inputs, [""] * outputs)


ATTENTION = [
    attention(X, W, BIAS),
    attention(X, W, scale=0.3),
    attention(X, W, BIAS, unidirectional=1, outputs=2),
    attention(X, W[:, :38].copy(), BIAS[:38].copy(), qkv_hidden_sizes=[WIDTH, WIDTH, 6]),
    *(attention(X, W, BIAS, mask) for mask in MASKS.values()),
    *(attention(X, W, BIAS, mask, unidirectional=1) for mask in MASKS.values()),
    attention(X, W, BIAS, MASKS["keys"], mask_filter_value=-3.0),
    attention(X, W, BIAS, MASKS["keys"], mask_filter_value=-3.0, unidirectional=1),
    attention(X, W, BIAS, None, None, normal(1, HEADS, 4, 4)),
    attention(X, W, BIAS, MASKS["keys"], None, normal(2, 1, 4, 4)),
    attention(X, W, BIAS, None, STATE, outputs=2),
    attention(X, W, BIAS, PAST_MASK, STATE, outputs=2, unidirectional=1),
    attention(X, W, BIAS, numbers(6, 7), STATE, outputs=2),
    attention(X, W, BIAS, shown(2, 4, 7), STATE, outputs=2),
]

Q, K, V = normal(2, 4, WIDTH), normal(2, 5, WIDTH, seed=1), normal(2, 5, WIDTH, seed=2)
NEW_K, NEW_V = normal(2, 4, WIDTH, seed=1), normal(2, 4, WIDTH, seed=2)
CACHES = normal(2, HEADS, PAST, SIZE, seed=4), normal(2, HEADS, PAST, SIZE, seed=5)
CROSS = [normal(2, HEADS, 5, SIZE, seed=seed) for seed in (4, 5)]


def multi_head(*operands: Array | None, outputs: int = 1, **attributes: object) -> Case:
    inputs = tuple(i for i in (0, 1, 2, 6, 7) if i < len(operands) and operands[i] is not None)
    given = {"num_heads": HEADS, **attributes}
    return Case("MultiHeadAttention", operands, given, inputs, [""] * outputs)


MULTI_HEAD = [
    multi_head(Q, K, V),
    multi_head(Q, K, V[..., :6].copy()),
    multi_head(Q, K, V, BIAS, scale=0.2),
    multi_head(Q, K, V, BIAS, shown(2, 5)),
    multi_head(Q, K, V, None, numbers(3, 5)),
    multi_head(Q, K, V, None, numbers(3, 5, 0, 4, 8, 0, 3, 8), mask_filter_value=-2.0),
    multi_head(Q, K, V, None, shown(2, 4, 5)),
    multi_head(Q, K, V, None, None, normal(1, HEADS, 4, 5)),
    multi_head(Q, K, V, None, None, normal(2, 1, 4, 5)),
    multi_head(Q, *CROSS),
    multi_head(Q, *CROSS, BIAS),
    multi_head(Q, NEW_K, NEW_V, unidirectional=1, outputs=4),
    multi_head(Q, NEW_K, NEW_V, BIAS, None, None, *CACHES, unidirectional=1, outputs=3),
    multi_head(Q, NEW_K, NEW_V, None, PAST_MASK, None, *CACHES, outputs=3),
    multi_head(
        *(Q, NEW_K, NEW_V, None, PAST_MASK, normal(1, 1, 4, 7), *CACHES),
        unidirectional=1,
        outputs=4,
    ),
]

COS, SIN = normal(20, SIZE // 2), normal(20, SIZE // 2, seed=1)
PLACES = np.array([[3, 0, 14, 7], [1, 1, 2, 19]])


def rotary(*operands: Array, **attributes: object) -> Case:
    return Case("RotaryEmbedding", operands, attributes, (0, 1))


PART = {"num_heads": HEADS, "rotary_embedding_dim": 4}
ROTARY = [
    case
    for interleaved in (0, 1)
    for case in (
        rotary(Q, PLACES, COS, SIN, interleaved=interleaved),
        rotary(Q, np.array([3]), COS, SIN, interleaved=interleaved),
        rotary(normal(2, HEADS, 4, SIZE), PLACES, COS, SIN, interleaved=interleaved),
        rotary(Q, PLACES, COS[:, :2], SIN[:, :2], interleaved=interleaved, **PART),
        rotary(
            normal(2, HEADS, 4, SIZE),
            *(PLACES, COS[:, :2], SIN[:, :2]),
            interleaved=interleaved,
            **PART,
        ),
    )
]


def quantized(*more: Array | None, scale: Array | float = 0.02, **attributes: object) -> Case:
    bytes_ = np.random.default_rng(0).integers(0, 256, X.shape).astype(np.uint8)
    weight = np.random.default_rng(1).integers(-60, 60, W.shape).astype(np.int8)
    scales = np.array(0.01, np.float32), np.asarray(scale, np.float32)
    inputs = (0, 8) if len(more) > 3 else (0,)
    outputs = ["float32"] * (2 if len(more) > 3 else 1)
    given = {"num_heads": HEADS, **attributes}
    return Case("QAttention", [bytes_, weight, BIAS, *scales, *more], given, inputs, outputs)


ZERO = np.array(120, np.uint8)
COLUMNS = np.arange(3 * WIDTH) % 5
QUANTIZED = [
    quantized(None, ZERO, np.array(3, np.int8)),
    quantized(None, ZERO, COLUMNS.astype(np.int8), scale=0.01 + COLUMNS * 0.002),
    quantized(numbers(3, 4), unidirectional=1),
    quantized(PAST_MASK, ZERO, None, STATE, unidirectional=1),
]

CASES = [*ATTENTION, *MULTI_HEAD, *ROTARY, *QUANTIZED]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_as_onnxruntime(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case", [ATTENTION[2], ATTENTION[-1], MULTI_HEAD[-2], QUANTIZED[1]], ids=lambda case: case.title
)
def test_heads_are_one_op(case: Case) -> None:
    text = tessella.compile(made(case)[0]).as_text("placed")
    assert text.count("nn.attention") == 1
    assert "nn.softmax" not in text


# ** forms that ONNX Runtime has on other devices alone **


def run(case: Case) -> list[Array]:
    proto, feeds = made(case)
    return tessella.compile(proto).run(None, feeds)


def same(case: Case, other: Case) -> None:
    """Check a case against ONNX Runtime's results of another one."""
    for found, expected in zip(run(case), run_onnxruntime(*made(other)), strict=True):
        close(found, expected.reshape(found.shape))


def packed(*parts: Array) -> Array:
    """Return projections as [B, S, N, parts, D]."""
    heads = [part.reshape(*part.shape[:2], HEADS, SIZE) for part in parts]
    return np.stack(heads, 3)


def test_packed_projections() -> None:
    same(multi_head(packed(Q, NEW_K, NEW_V)), multi_head(Q, NEW_K, NEW_V))
    same(multi_head(packed(Q, NEW_K, NEW_V), None, None, BIAS), multi_head(Q, NEW_K, NEW_V, BIAS))
    same(multi_head(Q, packed(K, V)), multi_head(Q, K, V))


def test_a_mask_of_all_tokens_so_far() -> None:
    mask = shown(2, 1, 9, 9)
    of_scores = mask[:, 0, PAST : PAST + 4, : PAST + 4].copy()
    same(
        attention(X, W, BIAS, mask, STATE, outputs=2),
        attention(X, W, BIAS, of_scores, STATE, outputs=2),
    )


LENGTHS = (1, 3, 2)


def starts() -> Sequence[Array]:
    """Return the operands of packed sequences: the offsets of tokens, and where sequences start."""
    offsets = np.arange(9, dtype=np.int32).reshape(3, 3)
    return [offsets, np.cumsum((0, *LENGTHS)).astype(np.int32)]


def test_packed_sequences() -> None:
    tokens = normal(sum(LENGTHS), 10)
    apart = np.split(tokens, np.cumsum(LENGTHS)[:-1])
    expected = [run_onnxruntime(*made(attention(x[None], W, BIAS)))[0][0] for x in apart]
    case = Case("PackedAttention", [tokens, W, BIAS, *starts()], {"num_heads": HEADS})
    close(run(case)[0], np.concatenate(expected))


def test_packed_sequences_of_projections() -> None:
    parts = [normal(sum(LENGTHS), WIDTH, seed=seed) for seed in range(3)]
    apart = zip(*(np.split(part, np.cumsum(LENGTHS)[:-1]) for part in parts), strict=True)
    each = [multi_head(*(part[None] for part in three), BIAS) for three in apart]
    expected = np.concatenate([run_onnxruntime(*made(case))[0][0] for case in each])
    stacked = np.stack([part.reshape(-1, HEADS, SIZE) for part in parts], 2)
    for operands in ((*parts, BIAS), (stacked, None, None, BIAS)):
        given = {"num_heads": HEADS}
        inputs = tuple(i for i in range(3) if operands[i] is not None)
        case = Case("PackedMultiHeadAttention", [*operands, *starts()], given, inputs)
        close(run(case)[0], expected)


# ** errors **


@pytest.mark.parametrize(
    "case, message",
    [
        (attention(X, W, BIAS, shown(2, 5)), "the mask does not fit"),
        (attention(X, W, BIAS, None, STATE[:, :, :1]), "the past state does not fit"),
        (attention(X, W, BIAS, None, None, normal(2, 3, 4, 4)), "the bias of scores does not fit"),
        (attention(X, W, qkv_hidden_sizes=[16, 16, 8]), "do not divide into queries"),
        (multi_head(Q, K, V, BIAS[:-1].copy()), "the bias does not fit"),
        (multi_head(normal(2, 4, 3 * WIDTH)), "not packed"),
        (multi_head(Q, K, V, None, None, None, CACHES[0]), "without the other"),
        (rotary(Q, PLACES[:, :2], COS, SIN), "the positions do not fit"),
        (rotary(Q, PLACES, COS, SIN[:, :2]), "not matrices of one shape"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_operands_that_do_not_fit(case: Case, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tessella.compile(made(case)[0])


@pytest.mark.parametrize(
    "case, message",
    [
        (attention(X, W, do_rotary=1), "attribute 'do_rotary' is not supported"),
        (rotary(Q, PLACES, COS, SIN, scale=2.0), "attribute 'scale' is not supported"),
        (
            multi_head(Q, NEW_K, NEW_V, None, None, None, *CACHES, numbers(3)),
            "input 8 is given, which belongs to a cache that the op writes in place",
        ),
        (
            Case(
                "PackedAttention",
                [X[0], W, BIAS, *starts(), normal(1, 1, 3, 3)],
                {"num_heads": HEADS},
            ),
            "input attention_bias, which has positions of padded sequences",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_forms_that_are_refused(case: Case, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        tessella.compile(made(case)[0])
