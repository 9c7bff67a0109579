"""Command line tools: `tessella` and `tessella-opt`."""
