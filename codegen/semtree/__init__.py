"""Kernels of devices as trees of statements, and the printers of these trees."""
