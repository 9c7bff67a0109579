"""Kernels of the stage `tile` as OpenCL C."""
