"""Running compiled programs: programs, weights, arenas, calls, and the NumPy kernels.

The folder knows no IR and imports NumPy only.
"""
