"""Measurements of this machine and of its kernels."""
