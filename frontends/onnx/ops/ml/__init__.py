"""The converters of the domain `ai.onnx.ml`, by family."""

from __future__ import annotations

from tessella.frontends.onnx.ops.ml import categories, ensembles, features, linear, maps, vectors

__all__ = ["FAMILIES"]

FAMILIES = (ensembles, linear, vectors, features, categories, maps)
