"""What programs are written in: ONNX, traced Python functions, the files of a stage."""
