"""Random programs and damaged files: ``python -m tests.fuzz --help``."""
