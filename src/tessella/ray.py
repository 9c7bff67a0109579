"""Models in Ray: a class for `ray.data.Dataset.map_batches`.

data.map_batches(tessella.ray.Predictor, fn_constructor_args=("model.tsl",), concurrency=8)
"""

from tessella.tools.batch.predictor import Predictor

__all__ = ["Predictor"]
