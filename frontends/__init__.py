"""The frontends, which read programs: ONNX models, traced Python functions, the Tile language,
stage files."""
