"""Metadata and initializers of an ONNX file, which sessions report. Reading them needs the package
onnx."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import OptionError

if TYPE_CHECKING:
    import onnx

Origin = str | os.PathLike[str] | bytes
Array = npt.NDArray[Any]

_FIRST_OVERRIDABLE = 4
"""The first IR version in which an initializer that is also an input is a default value."""


@dataclass(frozen=True)
class ModelMetadata:
    """Metadata of an ONNX file."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict[str, str])


def metadata(origin: Origin) -> ModelMetadata:
    """Return the metadata of the file."""
    model = _loaded(origin)
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
        custom_metadata_map={each.key: each.value for each in model.metadata_props},
    )


def sizes_by_denotation(origin: Origin, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of dimensions by name, for sizes by denotation. Raises OptionError for a
    denotation that the model does not have."""
    found: dict[str, int] = {}
    known: set[str] = set()
    for value in _loaded(origin).graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.denotation:
                known.add(dim.denotation)
            if dim.denotation in sizes and not dim.HasField("dim_value"):
                found[dim.dim_param or f"{value.name}:{axis}"] = sizes[dim.denotation]
    if unknown := [name for name in sizes if name not in known]:
        raise OptionError(
            "sizes are given for denotations that the model does not have",
            expected=", ".join(sorted(known)) or "none",
            found=", ".join(unknown),
        )
    return found


def overridable(origin: Origin) -> list[ValueInfo]:
    """Return the initializers that are also inputs, whose values callers may replace; none before
    IR version 4."""
    from tessella.frontends.onnx.external import ExternalFiles
    from tessella.frontends.onnx.parse import parse_model

    model = _loaded(origin)
    if model.ir_version < _FIRST_OVERRIDABLE:
        return []
    graph = parse_model(model, ExternalFiles(None)).graph
    tensors = [graph.tensors[each.name] for each in graph.inputs if each.name in graph.tensors]
    return [ValueInfo(tensor.name, tensor.type, tensor.shape) for tensor in tensors]


def changed(origin: Origin, values: Mapping[str, Array], given: Set[str]) -> onnx.ModelProto:
    """Return the model with the ``values`` of some initializers replaced, and the initializers
    ``given`` as mere inputs. Raises OptionError for an initializer in ``values`` that the model
    does not have, or that has another type or shape."""
    model = _loaded(origin)
    known = {each.name: each for each in model.graph.initializer}
    for name, array in values.items():
        if name not in known:
            raise OptionError(
                f"the model has no initializer {name!r}",
                expected=f"one of {', '.join(known) or 'none'}",
            )
        _replace(known[name], array)
    kept = [each for each in model.graph.initializer if each.name not in given]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model


def _replace(tensor: onnx.TensorProto, array: Array) -> None:
    from tessella.frontends.onnx.tensors import element_name

    name, kind, dims = tensor.name, tensor.data_type, tuple(tensor.dims)
    if (element_name(kind), dims) != (dtype_name(array.dtype), array.shape):
        raise OptionError(
            f"the value does not fit the initializer {name!r}",
            expected=f"{element_name(kind)} {list(dims)}",
            found=f"{dtype_name(array.dtype)} {list(array.shape)}",
        )
    tensor.Clear()
    tensor.name, tensor.data_type, tensor.raw_data = name, kind, array.tobytes()
    tensor.dims.extend(dims)


def _loaded(origin: Origin) -> onnx.ModelProto:
    """Return the checked model as protobuf, with all external data read into it."""
    from tessella.frontends.onnx import load_model

    return load_model(origin)


def with_sizes(info: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    """Return the description of an input or output with sizes in place of the names of some
    dimensions."""
    return replace(info, shape=tuple(sizes.get(str(d), d) for d in info.shape))
