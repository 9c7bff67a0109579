"""Choosing kernels: candidates, scores, costs, and the choice over the whole graph."""
