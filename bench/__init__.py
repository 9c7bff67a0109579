"""Measurements: of whole models, against other runtimes."""
