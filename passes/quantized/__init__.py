"""Quantized numbers: integer products with zero points and scales, and moves of conversions."""
