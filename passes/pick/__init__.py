"""Choosing kernels: the kernels that can run an op, their scores and costs, and the choice for a
whole function."""
