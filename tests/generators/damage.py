"""Damaged files: ONNX models and stages of which a little is something else."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import onnx
from onnx import helper

from tests.generators.choices import Choices

INTEGERS = [
    0,
    1,
    -1,
    2,
    3,
    7,
    16,
    255,
    -(1 << 31),
    1 << 31,
    1 << 40,
    1 << 62,
    -(1 << 63),
    (1 << 63) - 1,
]
FLOATS = [0.0, -0.0, 0.5, -1.0, float("nan"), float("inf"), 1e38, 1e-45]
TEXTS = ["", "NOTSET", "SAME_UPPER", "linear", "reflect", "é", '"', "i->", "x" * 300]

# ** models **


class ModelDamage(Choices):
    """Changes to a model."""

    def __init__(self, random: Random, model: onnx.ModelProto) -> None:
        super().__init__(random)
        self.model = onnx.ModelProto.FromString(model.SerializeToString())

    def change(self) -> None:
        """A change somewhere."""
        node = self.one_of(*self.model.graph.node)
        match self.between(0, 6):
            case 0:
                self.attribute(node)
            case 1:
                self.inputs(node)
            case 2:
                self.tensor()
            case 3:
                self.type()
            case 4:
                node.op_type = self.one_of(*onnx.defs.get_all_schemas()).name
            case 5:
                self.nodes()
            case _:
                self.model.opset_import[0].version = self.between(1, 30)

    def attribute(self, node: onnx.NodeProto) -> None:
        """A value of another kind, or another number in a list."""
        if not node.attribute:
            return
        attribute = self.one_of(*node.attribute)
        made = self.one_of(*self.one_of(INTEGERS, FLOATS, TEXTS))
        listed = list(attribute.ints)
        if listed and self.coin():
            listed[self.between(0, len(listed) - 1)] = self.one_of(*INTEGERS)
            made = listed[: self.between(1, len(listed))]
        attribute.CopyFrom(helper.make_attribute(attribute.name, made))

    def inputs(self, node: onnx.NodeProto) -> None:
        """Operands in another order, or fewer."""
        names = self.random.sample(list(node.input), len(node.input))
        del node.input[:]
        node.input.extend(names[: self.between(0, len(names))])

    def nodes(self) -> None:
        """A node that reads other values, or is there twice, or after its readers."""
        nodes = self.model.graph.node
        node = self.one_of(*nodes)
        values = [name for other in nodes for name in (*other.input, *other.output)]
        if node.input and self.coin():
            node.input[self.between(0, len(node.input) - 1)] = self.one_of(*values)
        else:
            nodes.insert(self.between(0, len(nodes)), node)

    def tensor(self) -> None:
        """Another element, or another shape."""
        if not self.model.graph.initializer:
            return
        tensor = self.one_of(*self.model.graph.initializer)
        if tensor.raw_data and min(tensor.dims, default=1) > 0 and self.coin():
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            array = np.frombuffer(tensor.raw_data, dtype).copy()
            odd = np.array(self.one_of(*(FLOATS if dtype.kind in "fV" else INTEGERS)))
            array[self.between(0, array.size - 1)] = odd.astype(dtype)
            tensor.raw_data = array.tobytes()
        elif tensor.dims and self.coin():
            tensor.dims[self.between(0, len(tensor.dims) - 1)] = self.one_of(*INTEGERS)
        else:
            tensor.dims.append(self.one_of(*INTEGERS))

    def type(self) -> None:
        """Another size or element type of an input."""
        if not self.model.graph.input:
            return
        kind = self.one_of(*self.model.graph.input).type.tensor_type
        if kind.shape.dim and self.coin():
            self.one_of(*kind.shape.dim).dim_value = self.one_of(*INTEGERS)
        else:
            kind.elem_type = self.between(0, 30)


@np.errstate(all="ignore")
def damaged_model(random: Random, model: onnx.ModelProto) -> bytes:
    """A valid model with a few things changed, or a few of its bytes."""
    damage = ModelDamage(random, model)
    for _ in range(damage.one_of(1, 1, 1, 2, 3)):
        damage.change()
    data = bytearray(damage.model.SerializeToString())
    if damage.chance(12):
        for _ in range(damage.between(1, 3)):
            data[damage.between(0, len(data) - 1)] = damage.between(0, 255)
    if damage.chance(3):
        del data[damage.between(0, len(data)) :]
    return bytes(data)


# ** text **

NUMBERS = [*map(str, INTEGERS), "10000000000000000000000000000000000000000"]
WORDS = [
    *("1e40", "nan", "f64", "i1", "index", "true", "host", "nhwc", "any", "@main", "@w", "none"),
    *("", '"', "{", "}", "<", ">", "(", ")", "[", "]", "packed<[1, 0]>", "tensor<4xf32>"),
    *("nn.relu", "nn.splat", "func.return", "strided<[1]>", "memref<4xf32>", "array<i64: 1>"),
    *("bf16", "ui8", "tile.yield", "arith.addf", "+", "=", "|", "where", "nchw16c"),
]
_TOKENS = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?|[%@#]?[\w.$]+|\s+|.")


def damaged_text(random: Random, text: str) -> str:
    """The text with a few words and lines changed."""
    draw = Choices(random)
    for _ in range(draw.one_of(1, 1, 1, 2, 3)):
        text = _changed(draw, text) or " "
    return text


def _changed(draw: Choices, text: str) -> str:
    words = _TOKENS.findall(text)
    at = draw.between(0, len(words) - 1)
    match draw.between(-4, 4):
        case -4 | -3 | -2 | -1 | 0:
            numbers = [i for i, word in enumerate(words) if re.match(r"-?\d", word)]
            if numbers:
                words[draw.one_of(*numbers)] = draw.one_of(*NUMBERS)
        case 1:
            words[at] = draw.one_of(*WORDS)
        case 2:
            words[at] = draw.one_of(*words)
        case 3:
            del words[at : at + draw.between(1, 4)]
        case _:
            lines = text.split("\n")
            lines.insert(draw.between(0, len(lines)), draw.one_of(*lines))
            return "\n".join(lines)
    return "".join(words)
