"""The kernels of the device. Their source text is JSON that names a function of ``server.py``."""

from __future__ import annotations

import json
from typing import Any

from far.device import FACTS
from tessella.dialects import nn
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.kernels.cost import bytes_of
from tessella.kernels.elements import rows
from tessella.kernels.registry import Kernel, register
from tessella.runtime.devices import Source
from tessella.support.sizes import estimated, product


def add_kernel(name: str, op: type[NnOp], transposes: str = "") -> None:
    """Register a kernel for an op. ``transposes`` names its property for a transposed operand."""

    def source(found: Any) -> Source:
        shapes = [shape_of(value) for value in (*found.operands, *found.results)]
        settings = {"transpose": found.settings[transposes]} if transposes else {}
        return Source(json.dumps({"name": name, "shapes": shapes, "settings": settings}))

    def seconds(found: Any, target: object) -> float:
        size = sum(map(bytes_of, (*found.operands, *found.results)))
        points = estimated(product(shape_of(found.results[0])))
        depth = estimated(shape_of(found.operands[0])[-1]) if transposes else 1
        return FACTS.kernel_seconds(2 * points * depth, size)

    register(Kernel(name, op, "far", (NCHW,), rows(["f32"]), cost=seconds, source=source))


add_kernel("far-add", nn.AddOp)
add_kernel("far-fc", nn.FcOp, "transpose_w")
add_kernel("far-matmul", nn.MatmulOp, "transpose_b")
add_kernel("far-relu", nn.ReluOp)
