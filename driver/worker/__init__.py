"""Compilation in another process."""
