"""The ways to write programs: ONNX, traced Python functions, the Tile language, stage files."""
