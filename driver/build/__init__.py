"""Building: the pipeline, and the way from a module to a program."""
