"""The pipeline, and the way from a graph to an executable."""
