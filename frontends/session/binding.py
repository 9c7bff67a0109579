"""``IOBinding``: inputs and outputs of a session that are bound once for many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tessella.frontends.session.refused import check_device
from tessella.frontends.session.values import ElementType, OrtValue, array_at
from tessella.support.errors import InputError, OptionError

Array = npt.NDArray[Any]


class _Named(Protocol):
    """An input or output of a model."""

    @property
    def name(self) -> str:
        """The name by which it is bound."""
        ...


class _Session(Protocol):
    """A session whose runs a binding serves."""

    def get_inputs(self) -> Sequence[_Named]:
        """Return the inputs of the model."""
        ...

    def get_outputs(self) -> Sequence[_Named]:
        """Return the outputs of the model."""
        ...


class IOBinding:
    """Inputs and outputs of a session's runs, by name; ``InferenceSession.io_binding`` makes one.

    Native code reads and writes the bound memory without a copy. Arrays for outputs must be
    C-contiguous, and must not share memory with inputs.
    """

    def __init__(self, session: _Session) -> None:
        """Create a binding of a session without inputs and outputs."""
        self.session = session
        self.inputs: dict[str, Any] = {}
        """The bound inputs by name: arrays, and lists of arrays."""
        self.outputs: dict[str, Array | None] = {}
        """The arrays that runs write outputs into, by name; None for an output for which a run
        allocates an array."""
        self.results: list[OrtValue] = []
        """The outputs of the last run, in the order in which they were bound."""

    def bind_cpu_input(self, name: str, arr_on_cpu: npt.ArrayLike) -> None:
        """Let runs read an input from an array.

        Parameters
        ----------
        name : str
            The name of the input.
        arr_on_cpu : ndarray
            The array, which every run reads again.

        Raises
        ------
        InputError
            If the model has no such input.
        """
        _check("input", name, [each.name for each in self.session.get_inputs()])
        self.inputs[name] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: ElementType,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Let runs read an input from an address.

        Parameters
        ----------
        name : str
            The name of the input.
        device_type : str
            ``"cpu"``.
        device_id : int
            Ignored.
        element_type : dtype or int
            The dtype, or the number of the element type in ONNX's ``TensorProto``.
        shape : sequence of int
            The shape of the input.
        buffer_ptr : int
            The address of the first element, which has to stay valid.

        Raises
        ------
        InputError
            If the model has no such input, or tessella does not have the element type.
        OptionError
            If the device is not the CPU.
        """
        check_device(device_type, "bind_input")
        self.bind_cpu_input(name, array_at(buffer_ptr, element_type, shape))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Let runs read an input from a value.

        Parameters
        ----------
        name : str
            The name of the input.
        ortvalue : OrtValue
            The value, which every run reads again.

        Raises
        ------
        InputError
            If the model has no such input.
        """
        self.bind_cpu_input(name, ortvalue.value)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: ElementType | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Let runs compute an output, into the memory at an address if one is given.

        Parameters
        ----------
        name : str
            The name of the output.
        device_type : str
            ``"cpu"``.
        device_id : int
            Ignored.
        element_type : dtype or int, optional
            The dtype, or the number of the element type in ONNX's ``TensorProto``.
        shape : sequence of int, optional
            The shape of the output.
        buffer_ptr : int, optional
            The address of the first element, which has to stay valid. Without it, a run allocates.

        Raises
        ------
        InputError
            If the model has no such output, or tessella does not have the element type.
        OptionError
            If the device is not the CPU, or an address has no element type or shape.
        """
        check_device(device_type, "bind_output")
        _check("output", name, [each.name for each in self.session.get_outputs()])
        if buffer_ptr is None:
            self.outputs[name] = None
            return
        if element_type is None or shape is None:
            raise OptionError(
                "memory for an output has an element type and a shape",
                where=f"output {name!r}",
                expected="element_type and shape beside buffer_ptr",
            )
        self.outputs[name] = array_at(buffer_ptr, element_type, shape)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Let runs write an output into a tensor.

        Parameters
        ----------
        name : str
            The name of the output.
        ortvalue : OrtValue
            The tensor.

        Raises
        ------
        InputError
            If the model has no such output, or the value is not a tensor.
        """
        _check("output", name, [each.name for each in self.session.get_outputs()])
        self.outputs[name] = ortvalue.numpy()

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run.

        Returns
        -------
        list of OrtValue
            The values, in the order in which the outputs were bound.
        """
        return [*self.results]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copy the outputs of the last run.

        Returns
        -------
        list of ndarray
            Arrays, and lists of arrays for sequences, in the order in which outputs were bound.
        """
        return [_copied(each.value) for each in self.results]

    def clear_binding_inputs(self) -> None:
        """Remove all inputs from the binding."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Remove all outputs from the binding."""
        self.outputs.clear()

    def synchronize_inputs(self) -> None:
        """Do nothing: all memory is that of the CPU."""

    def synchronize_outputs(self) -> None:
        """Do nothing: all memory is that of the CPU."""


def _check(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(f"the model has no {kind} {name!r}", expected=", ".join(known))


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copied(each) for each in cast(list[Any], value)] if isinstance(value, list) else value
