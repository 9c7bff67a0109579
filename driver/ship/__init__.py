"""Artifacts and C code."""
