"""The backend interface of ONNX: what ``onnx.backend.test.BackendTest`` and other tools that take
an ``onnx.backend.base.Backend`` call.

    import tessella.frontends.onnx.backend as backend

    [y] = backend.prepare(model).run([x])

It needs the package ``onnx``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from tessella.frontends.compile import compile as compile_model
from tessella.frontends.onnx.schemas import newest_opset, since_versions
from tessella.frontends.onnx.tensors import element_code
from tessella.frontends.onnx.unsupported import check
from tessella.runtime.elements import as_own, public
from tessella.runtime.model import CallableModel
from tessella.runtime.sparse import check_dense
from tessella.runtime.texts import STRING
from tessella.runtime.values import Value
from tessella.support.errors import InputError, OptionError

_OF_TESTS = ("rtol", "atol")
"""Arguments that ``BackendTest`` passes to ``prepare``, but needs for its own comparison."""


class CompiledRep(BackendRep):
    """A compiled model, as ``prepare`` returns it. ``model`` is the ``tessella.Model``."""

    def __init__(self, model: CallableModel) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model, and return its outputs as a tuple that also has their names as keys.

        Parameters
        ----------
        inputs : sequence, dict or array
            The inputs in the order of the model, or by name, or the only one. An input is an array,
            a list of arrays for a sequence, or None for an empty optional.
        **kwargs : dict
            Arguments of other backends, which have no effect.

        Returns
        -------
        tuple
            The outputs. Elements that NumPy lacks, such as bfloat16, are those of ``ml_dtypes``;
            strings are objects.

        Raises
        ------
        InputError
            If the inputs do not fit the model.
        """
        del kwargs
        feeds = _named(inputs, [info.name for info in self.model.inputs])
        found = [_public(value) for value in self.model.run(None, feeds)]
        names = [info.name for info in self.model.outputs]
        return namedtupledict("Outputs", names)(*found)


class TessellaBackend(Backend):
    """The backend that compiles models by ``tessella.compile``, for the CPU."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether models can run on a device, such as ``CPU``, ``CPU:0`` or ``CUDA``."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether all parts of a model are supported; ``tessella.check`` lists those that
        are not. Raises InvalidModelError if it is not a valid model."""
        del kwargs
        return cls.supports_device(device) and not check(model)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledRep:
        """Compile a model.

        Parameters
        ----------
        model : onnx.ModelProto
            The model.
        device : str
            The device that runs it, which must be the CPU.
        **kwargs : dict
            Options of ``tessella.compile``.

        Returns
        -------
        CompiledRep
            The compiled model, whose method ``run`` takes inputs.

        Raises
        ------
        OptionError
            If the device is not the CPU, or an option is wrong.
        InvalidModelError
            If it is not a valid model.
        UnsupportedError
            If parts of the model are not supported; ``issues`` lists all of them.
        """
        if not cls.supports_device(device):
            raise OptionError("this device is not supported", expected="CPU", found=repr(device))
        options = {name: value for name, value in kwargs.items() if name not in _OF_TESTS}
        return CompiledRep(compile_model(model, **options))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile a model and run it once: ``prepare(model, device, **kwargs).run(inputs)``."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile and run a model of one node.

        Parameters
        ----------
        node : onnx.NodeProto
            The node.
        inputs : sequence, dict or array
            The inputs that the node gives, in its order or by name, or the only one.
        device : str
            The device that runs it, which must be the CPU.
        outputs_info : sequence, optional
            The element types and shapes of the outputs, which are inferred and not read.
        **kwargs : dict
            ``opset_version``, the version of the op set of the node's domain, by default the
            newest; and options of ``tessella.compile``.

        Returns
        -------
        tuple
            The outputs, as ``CompiledRep.run`` returns them.
        """
        del outputs_info
        version: int | None = kwargs.pop("opset_version", None)
        feeds = _named(inputs, [*filter(None, node.input)])
        return cls.run_model(_model_of(node, feeds, version), feeds, device, **kwargs)


def _named(inputs: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """Return inputs by name. Raises InputError unless there is one for each of ``names``."""
    if isinstance(inputs, Mapping):
        feeds, count = dict(cast("Mapping[str, Any]", inputs)), len(names)
    else:
        values = cast("Sequence[Any]", inputs) if isinstance(inputs, list | tuple) else [inputs]
        feeds, count = dict(zip(names, values, strict=False)), len(values)
    if count != len(names) or feeds.keys() != {*names}:
        raise InputError(
            "the inputs are not those of the model",
            expected=f"{len(names)}: {', '.join(names)}",
            found=str(count) if count != len(names) else ", ".join(feeds) or "none",
        )
    return feeds


def _model_of(
    node: onnx.NodeProto, feeds: Mapping[str, Any], version: int | None
) -> onnx.ModelProto:
    """Return a model of one node, with the types of its inputs."""
    title = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    newest = max(since_versions(title), default=1) if node.domain else newest_opset()
    opsets = [helper.make_opsetid(node.domain, version or newest)]
    if node.domain:
        opsets.append(helper.make_opsetid("", newest_opset()))
    inputs = [helper.make_value_info(name, _type_of(value)) for name, value in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets)


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        element = np.asarray(cast("list[Any]", value)[0])
        return helper.make_sequence_type_proto(
            helper.make_tensor_type_proto(element_code(as_own(element).dtype), None)
        )
    check_dense(value)
    array = as_own(np.asarray(value))
    return helper.make_tensor_type_proto(element_code(array.dtype), array.shape)


def _public(value: Value) -> Value:
    """Return a result with the elements of the onnx package: those of ``ml_dtypes`` where NumPy
    lacks them, and strings as objects."""
    if isinstance(value, list):
        return [_public(item) for item in cast("list[Any]", value)]
    if value is None:
        return None
    return value.astype(object) if value.dtype == STRING else public(value)


is_compatible = TessellaBackend.is_compatible
prepare = TessellaBackend.prepare
run_model = TessellaBackend.run_model
run_node = TessellaBackend.run_node
supports_device = TessellaBackend.supports_device
