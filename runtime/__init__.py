"""Running what was compiled: program, weights, arena, call, the NumPy kernels. Knows no IR,
imports NumPy only."""
