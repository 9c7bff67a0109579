"""Quantisation by ONNX Runtime's quantiser."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from tessella.support.errors import ExecutionError, OptionError
from tessella.tools.quantize.peer import quantization
from tessella.tools.quantize.samples import Sample

ACTIVATIONS = {"u8": "QUInt8", "s8": "QInt8"}
"""The elements of activations, and ONNX Runtime's names for them."""

_DYNAMIC = ("MatMul", "Conv", "Gather")
"""ONNX operators with a form whose ranges are computed at run time."""


@dataclass(frozen=True)
class Scheme:
    """The element types and scales of a quantised model. Weights are signed, with zero points
    of 0."""

    per_channel: bool = True
    """True if each channel of a weight has its own scale."""
    activations: str = "u8"
    """The element type of activations, one of ``ACTIVATIONS``."""
    dynamic: bool = False
    """True if activation ranges are computed in each run instead of by calibration."""

    def check(self) -> None:
        """Raise OptionError for unknown elements and invalid combinations."""
        if self.activations not in ACTIVATIONS:
            raise OptionError(
                "unknown element of activations",
                expected=", ".join(ACTIVATIONS),
                found=repr(self.activations),
            )
        if self.dynamic and self.activations != "u8":
            raise OptionError(
                "ranges that are found in each run are those of u8",
                expected="u8",
                found=self.activations,
            )


class Quantizer:
    """Quantises one model repeatedly; calibration runs once.

    The quantiser reads and writes models in ``folder``.
    """

    def __init__(
        self, model: onnx.ModelProto, samples: Sequence[Sample], scheme: Scheme, folder: Path
    ) -> None:
        self._quantization = quantization()
        self._samples = samples
        self._scheme = scheme
        self._wide, self._narrow = folder / "wide.onnx", folder / "narrow.onnx"
        self._ranges = folder / "ranges.json"
        marked = onnx.ModelProto()
        marked.CopyFrom(model)
        self._quantization.quant_utils.add_pre_process_metadata(marked)
        self._wide.write_bytes(marked.SerializeToString())

    def quantized(self, wide: Collection[str]) -> onnx.ModelProto:
        """Return the model with all possible ops in 8 bits, except the nodes with these names."""
        quantize = self._dynamic if self._scheme.dynamic else self._static
        try:
            with _quiet():
                quantize(sorted(wide))
            return onnx.ModelProto.FromString(self._narrow.read_bytes())
        except Exception as error:  # the quantiser raises errors of any type
            raise ExecutionError(
                f"ONNX Runtime's quantiser fails: {type(error).__name__}: {error}",
                hint="exclude the node that it names, if it names one",
            ) from error

    def _static(self, wide: Sequence[str]) -> None:
        kinds = self._quantization.QuantType
        self._quantization.quantize_static(
            self._wide,
            self._narrow,
            _SampleReader(self._samples),
            quant_format=self._quantization.QuantFormat.QDQ,
            per_channel=self._scheme.per_channel,
            activation_type=getattr(kinds, ACTIVATIONS[self._scheme.activations]),
            weight_type=kinds.QInt8,
            nodes_to_exclude=wide,
            calibration_cache_path=self._ranges,
        )

    def _dynamic(self, wide: Sequence[str]) -> None:
        self._quantization.quantize_dynamic(
            self._wide,
            self._narrow,
            op_types_to_quantize=list(_DYNAMIC),
            per_channel=self._scheme.per_channel,
            weight_type=self._quantization.QuantType.QInt8,
            nodes_to_exclude=wide,
        )


class _SampleReader:
    """Samples in the form that ONNX Runtime expects: one by one, then None."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._left: Iterator[Sample] = iter(samples)

    def get_next(self) -> Sample | None:
        """Return the next sample; None after the last one."""
        return next(self._left, None)


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress the advice that the quantiser logs to the root logger."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(before)
