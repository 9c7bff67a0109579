"""Errors, knobs, sizes and text. All other folders may import this folder, which imports none of
them."""
