"""Measurements: of models and of single kernels, against other runtimes and the machine."""
