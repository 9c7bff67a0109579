"""Errors, knobs, sizes and text: what every other folder may import. It imports no other folder."""
