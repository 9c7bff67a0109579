"""Explanations of a program's kernels, places, tiles and threads."""
