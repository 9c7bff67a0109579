"""Kernels for devices such as GPUs, as trees of statements, and the printers that write these trees
in the devices' languages."""
