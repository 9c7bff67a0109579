"""Generation of OpenCL C from the kernels of the stage `tile`."""
