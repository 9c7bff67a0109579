"""The table of ONNX ops that random graphs are made of: one row for each op."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.graphs import Row
from tests.fuzz.rows import (
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    recurrent,
    reduction,
    windows,
)

ROWS: Sequence[Row] = (
    *elementwise.ROWS,
    *indexing.ROWS,
    *linear.ROWS,
    *movement.ROWS,
    *normalization.ROWS,
    *recurrent.ROWS,
    *reduction.ROWS,
    *windows.ROWS,
)

_OF_SEQUENCES = "tests/frontends/onnx/test_sequences.py has some"
_OF_ML = "tests/frontends/onnx/test_estimators.py has some"
_OF_STRINGS = "tests/frontends/onnx/test_strings.py has some"
_RANDOM = "tests/frontends/onnx/test_drawing.py has some"
_OF_REFERENCE = "tests/frontends/onnx/test_reference.py has some"

_ML = (
    "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer "
    "Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier "
    "SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap"
)

LEFT_OUT = {
    **{f"ai.onnx.ml.{op}": _OF_ML for op in _ML.split()},
    "Bernoulli": _RANDOM,
    "BitCast": "tests/kernels/test_elements.py has each pair of elements",
    "CausalConvWithState": "no oracle has it",
    "ConcatFromSequence": _OF_SEQUENCES,
    "Constant": "weights are initializers, which are imported alike",
    "Det": _OF_REFERENCE,
    "DeformConv": "onnx.reference takes seconds; tests/frontends/onnx/test_deform.py has some",
    "GlobalLpPool": "onnx.reference has none",
    "If": "it has graphs of its own; tests/driver/test_subprograms.py has some",
    "ImageDecoder": "tests/runtime/test_images.py has some",
    "LRN": "onnx.reference leaves out the last channel of a window",
    "LinearAttention": "no oracle has it",
    "Loop": "it has a graph of its own; tests/frontends/onnx/test_loop.py has some",
    "MaxRoiPool": "its values jump at borders; tests/kernels/test_detection.py draws some",
    "MelWeightMatrix": _OF_REFERENCE,
    "Multinomial": _RANDOM,
    "NonMaxSuppression": "its size varies; tests/kernels/test_detection.py draws some",
    "NonZero": "the size of its result varies; tests/driver/test_subprograms.py has some",
    "Optional": _OF_SEQUENCES,
    "OptionalGetElement": _OF_SEQUENCES,
    "OptionalHasElement": _OF_SEQUENCES,
    "RegexFullMatch": _OF_STRINGS,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "RoiAlign": "its values jump at borders; tests/kernels/test_detection.py draws some",
    "Scan": "it has a graph of its own; tests/frontends/onnx/test_scan.py draws some",
    "Scatter": "another name of ScatterElements",
    "SequenceAt": _OF_SEQUENCES,
    "SequenceConstruct": _OF_SEQUENCES,
    "SequenceEmpty": _OF_SEQUENCES,
    "SequenceErase": _OF_SEQUENCES,
    "SequenceInsert": _OF_SEQUENCES,
    "SequenceLength": _OF_SEQUENCES,
    "SequenceMap": _OF_SEQUENCES,
    "SplitToSequence": _OF_SEQUENCES,
    "StringConcat": _OF_STRINGS,
    "StringNormalizer": _OF_STRINGS,
    "StringSplit": _OF_STRINGS,
    "TfIdfVectorizer": _OF_ML,
    "Unique": "the size of its result varies; tests/driver/test_subprograms.py draws some",
    "Upsample": "deprecated in op set 10, before those that are drawn",
    "ai.onnx.preview.FlexAttention": _OF_REFERENCE,
    "ai.onnx.preview.training.Adagrad": _OF_REFERENCE,
    "ai.onnx.preview.training.Adam": _OF_REFERENCE,
    "ai.onnx.preview.training.Gradient": "tests/frontends/onnx/test_gradient.py has some",
    "ai.onnx.preview.training.Momentum": _OF_REFERENCE,
}
"""Ops that are supported and have no row, each with the reason."""
