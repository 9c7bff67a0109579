"""Quantized numbers: products of integers with zero points and scales, and moves of conversions."""
