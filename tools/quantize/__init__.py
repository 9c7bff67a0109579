"""Quantising models to 8 bits, with a report of what each op loses and gains: docs/quantize.md."""

from tessella.tools.quantize.quantize import Quantized as Quantized
from tessella.tools.quantize.quantize import quantize as quantize
