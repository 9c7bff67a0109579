"""Passes: rewrites within a level of the IR, one file each."""
