"""Rewrites within a level: one pass, one file."""
