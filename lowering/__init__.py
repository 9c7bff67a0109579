"""Lowerings between levels of the IR: `nn` to `tile` to `loops`."""
