"""torch with AMD's zentorch backend, as a peer of models whose torch network is in the fixtures.

It is not installed with ``tessella[bench]``, as its version has to be that of torch:

    pip install torch==2.13.0 "zentorch>=2.13,<2.14" deprecated
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tessella.tools.peers import Array, Feeds, Run


def load_zentorch(path: Path, threads: int, network: str) -> Run:
    """Load the torch network that the file was exported from, with the file's weights.

    It runs in bfloat16 by autocast, compiled and frozen.
    """
    torch: Any = importlib.import_module("torch")
    importlib.import_module("zentorch")
    inductor: Any = importlib.import_module("torch._inductor.config")
    inductor.freezing = True
    networks: Any = importlib.import_module("tests.fixtures.networks")
    torch.set_num_threads(threads)
    how = networks.NETWORKS[network]
    module = how.network().eval()
    state = {k: torch.from_numpy(v) for k, v in _weights(onnx.load(path), module).items()}
    module.load_state_dict(state)
    compiled = torch.compile(module, backend="zentorch", dynamic=False)

    def run(feeds: Feeds) -> list[Array]:
        inputs = [torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in how.inputs]
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            results = compiled(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        return [result.float().numpy() for result in results]

    return run


def _weights(model: onnx.ModelProto, module: Any) -> dict[str, Array]:
    """Return the module's parameters.

    They are the file's weights by name, and the operands of its products, which the exporter
    transposes and renames, in graph order.
    """
    arrays = {each.name: numpy_helper.to_array(each).copy() for each in model.graph.initializer}
    shapes = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    operands = (node.input[1] for node in model.graph.node if node.op_type == "MatMul")
    renamed = (arrays[name] for name in operands if name in arrays and name not in shapes)
    found = {
        name: arrays[name] if name in arrays else np.ascontiguousarray(next(renamed).T)
        for name in shapes
    }
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise ValueError(f"{name}: the file has {found[name].shape}, torch {shape}")
    return found
