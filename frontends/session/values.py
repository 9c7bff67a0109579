"""``OrtValue``: a value of a session, by its name and methods in ONNX Runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.session.refused import check_device, refused
from tessella.runtime.elements import as_dtype, as_own, dtype_name, dtype_named, element_of, public
from tessella.runtime.signature import ValueInfo
from tessella.runtime.sparse import check_dense
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InputError

Array = npt.NDArray[Any]
ElementType = npt.DTypeLike | int
"""A dtype, or the number of an element type in ONNX's ``TensorProto``."""

_NUMBERS = {element.public: element.onnx for element in ELEMENTS.values() if element.onnx}
"""Numbers of element types in ONNX's TensorProto, by the name of the dtype."""


class OrtValue:
    """A value of a session in the memory of the CPU: a tensor, a sequence of tensors, or None.

    A tensor shares its memory with the array from which it was created.
    """

    def __init__(self, value: Any) -> None:
        """Create a value from an array, a list of arrays, or None."""
        self.value: Any = value

    @classmethod
    def ortvalue_from_numpy(
        cls,
        numpy_obj: npt.ArrayLike,
        /,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Make a value that shares the memory of an array.

        Parameters
        ----------
        numpy_obj : ndarray
            The array. One that is not C-contiguous is copied.
        device_type : str
            ``"cpu"``.
        device_id : int
            Ignored.
        vendor_id : int
            Ignored.

        Returns
        -------
        OrtValue
            The value.

        Raises
        ------
        InputError
            If tessella does not have the element type.
        OptionError
            If the device is not the CPU.
        """
        check_device(device_type, "ortvalue_from_numpy")
        check_dense(numpy_obj)
        array = as_own(np.asarray(numpy_obj))
        if element_of(array.dtype) is None:
            raise InputError("a value has elements that are no numbers", found=str(array.dtype))
        return cls(np.require(array, requirements=["C"]))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """Make a value that reads the memory of an array as another element type of the same size.

        Parameters
        ----------
        data : ndarray
            The array, such as one of ``uint16``.
        onnx_element_type : int
            The element type in ONNX's ``TensorProto``, such as 16 for bfloat16.

        Returns
        -------
        OrtValue
            The value.

        Raises
        ------
        InputError
            If tessella does not have the element type, or it has another size.
        """
        dtype = dtype_of(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise InputError(
                "the element type has another size",
                expected=f"{data.dtype.itemsize} bytes",
                found=f"{dtype_name(dtype)}, of {dtype.itemsize}",
            )
        return cls(np.require(data, requirements=["C"]).view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: ElementType,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Make a tensor whose elements are not set yet.

        Parameters
        ----------
        shape : sequence of int
            The shape.
        element_type : dtype or int
            The dtype, or the number of the element type in ONNX's ``TensorProto``.
        device_type : str
            ``"cpu"``.
        device_id : int
            Ignored.
        vendor_id : int
            Ignored.

        Returns
        -------
        OrtValue
            The value.

        Raises
        ------
        InputError
            If tessella does not have the element type.
        OptionError
            If the device is not the CPU.
        """
        check_device(device_type, "ortvalue_from_shape_and_type")
        return cls(np.empty(tuple(shape), dtype_of(element_type)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Make a value that shares the memory of an array of another library.

        Parameters
        ----------
        data : object
            An object with the methods of the DLPack protocol.

        Returns
        -------
        OrtValue
            The value.
        """
        return cls.ortvalue_from_numpy(np.from_dlpack(data))

    def numpy(self) -> Array:
        """Return the tensor as an array that shares its memory.

        Returns
        -------
        ndarray
            The array.

        Raises
        ------
        InputError
            If the value is not a tensor.
        """
        if not self.is_tensor():
            raise InputError("the value is not a tensor", found=self.data_type())
        return public(self.value)

    def shape(self) -> list[int]:
        """Return the shape of the tensor.

        Returns
        -------
        list of int
            The shape.
        """
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """Return the type, as in ``NodeArg.type``.

        Returns
        -------
        str
            The type, such as ``tensor(float)``.
        """
        if self.is_tensor():
            return ValueInfo("", dtype_name(self.value.dtype), ()).type
        return "sequence" if self.is_tensor_sequence() else "optional"

    def element_type(self) -> int:
        """Return the element type of the tensor.

        Returns
        -------
        int
            Its number in ONNX's ``TensorProto``.
        """
        return _NUMBERS[dtype_name(self.numpy().dtype)]

    def tensor_size_in_bytes(self) -> int:
        """Return the size of the tensor.

        Returns
        -------
        int
            The number of bytes.
        """
        return self.numpy().nbytes

    def data_ptr(self) -> int:
        """Return the address of the first element of the tensor.

        Returns
        -------
        int
            The address.
        """
        return self.numpy().ctypes.data

    def device_name(self) -> str:
        """Return the device that has the value.

        Returns
        -------
        str
            ``"cpu"``.
        """
        return "cpu"

    def is_tensor(self) -> bool:
        """Return whether the value is a tensor.

        Returns
        -------
        bool
            Whether it is one.
        """
        return isinstance(self.value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Return whether the value is a sequence of tensors.

        Returns
        -------
        bool
            Whether it is one.
        """
        return isinstance(self.value, list)

    def is_sparse_tensor(self) -> bool:
        """Return False, as no value is a sparse tensor.

        Returns
        -------
        bool
            False.
        """
        return False

    def has_value(self) -> bool:
        """Return whether the value is not None.

        Returns
        -------
        bool
            Whether it is not None.
        """
        return self.value is not None

    def update_inplace(self, data: npt.ArrayLike | OrtValue) -> None:
        """Write other elements into the memory of the tensor.

        Parameters
        ----------
        data : ndarray or OrtValue
            The elements, with the same shape and element type.

        Raises
        ------
        InputError
            If the shape or the element type is another.
        """
        own, new = as_own(self.numpy()), as_own(np.asarray(_plain(data)))
        if (new.shape, new.dtype) != (own.shape, own.dtype):
            raise InputError(
                "the elements do not fit the value",
                expected=f"{dtype_name(own.dtype)} {list(own.shape)}",
                found=f"{dtype_name(new.dtype)} {list(new.shape)}",
            )
        np.copyto(own, new)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **settings: Any) -> Any:
        return self.numpy().__dlpack__(**settings)

    def __dlpack_device__(self) -> tuple[int, int]:
        device, number = self.numpy().__dlpack_device__()
        return int(device), int(number)

    as_sparse_tensor = refused("as_sparse_tensor", "tensors are dense")
    ort_value_from_sparse_tensor = refused("ort_value_from_sparse_tensor", "tensors are dense")


def dtype_of(element_type: ElementType) -> np.dtype[Any]:
    """Return the dtype for a dtype-like object, or for the number of an element type in ONNX.
    Raises InputError."""
    if isinstance(element_type, int):
        names = {number: name for name, number in _NUMBERS.items()}
        if element_type not in names:
            raise InputError(
                "unknown element type",
                expected=", ".join(f"{number} ({name})" for number, name in names.items()),
                found=str(element_type),
            )
        return dtype_named(names[element_type])
    return as_own(np.empty(0, as_dtype(element_type))).dtype


def array_at(address: int, element_type: ElementType, shape: Sequence[int]) -> Array:
    """Return an array that uses the memory at an address, which must stay valid. Raises InputError
    for an unsupported element type."""
    dtype = dtype_of(element_type)
    memory = (ctypes.c_byte * (prod(shape) * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype).reshape(tuple(shape))


def plain_feeds(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a run with each ``OrtValue`` replaced by its array or list of arrays."""
    if not any(isinstance(value, OrtValue) for value in feeds.values()):
        return feeds
    return {name: _plain(value) for name, value in feeds.items()}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, OrtValue) else value
