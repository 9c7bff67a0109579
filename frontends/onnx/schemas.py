"""Schemas of the installed onnx: the only module that queries ``onnx.defs``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, cast

import onnx
from onnx import defs, helper

from tessella.frontends.onnx.tensors import element_name


def newest_opset() -> int:
    """Return the newest op set version of the installed onnx."""
    return defs.onnx_opset_version()


def is_known(op: str) -> bool:
    """Return whether any op set version has the op."""
    return defs.has(op)


@dataclass(frozen=True, eq=False)
class Schema:
    """The definition of an op in one op set version."""

    since: int
    """The since version: the op set version that introduced this definition."""
    opset: int
    defaults: Mapping[str, Any]
    """Default values of attributes, as Python values."""
    complex: bool
    """True if ONNX defines the op for complex numbers."""
    _raw: Any  # the schema itself, whose methods on function bodies the stubs of onnx lack

    def fixed_body(self) -> bytes | None:
        """Return the serialized function that defines the op for all types; None if there is
        none."""
        version = self._newest(self._raw.function_opset_versions)
        return None if version is None else self._raw.get_function_with_opset_version(version)

    @property
    def has_typed_body(self) -> bool:
        """True if a function that depends on input types defines the op."""
        return self._newest(self._raw.context_dependent_function_opset_versions) is not None

    def typed_body(self, node: onnx.NodeProto, types: Sequence[onnx.TypeProto]) -> bytes | None:
        """Return the serialized function that defines the node for inputs of these types; None if
        there is none."""
        version = self._newest(self._raw.context_dependent_function_opset_versions)
        if version is None:
            return None
        body: bytes = self._raw.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [type.SerializeToString() for type in types]
        )
        return body or None

    def _newest(self, versions: Sequence[int]) -> int | None:
        return max((version for version in versions if version <= self.opset), default=None)


@lru_cache(maxsize=4096)
def schema(op: str, opset: int) -> Schema | None:
    """Return the op's schema in this version of its op set; None if it has no such op.

    Here and below, an op of another domain than ``ai.onnx`` is named with its domain, as
    ``Node.title`` names it.
    """
    domain, _, name = op.rpartition(".")
    try:
        raw = defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None
    values = {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in raw.attributes.items()
        if attribute.default_value.name
    }
    plain = {k: _plain(v) for k, v in values.items()}
    return Schema(raw.since_version, opset, plain, _takes_complex(raw), raw)


def _takes_complex(raw: defs.OpSchema) -> bool:
    return any("tensor(complex64)" in c.allowed_type_strs for c in raw.type_constraints)


def _plain(value: Any) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(map(_plain, cast(list[object], value))) if isinstance(value, list) else value


@cache
def domains() -> frozenset[str]:
    """Return the domains whose ops the installed onnx defines; that of ``ai.onnx`` is empty."""
    return frozenset(s.domain for s in defs.get_all_schemas())


def op_names() -> list[str]:
    """Return the names of the ops that are not deprecated, those of ``ai.onnx`` first."""
    names = (_title(s) for s in defs.get_all_schemas() if not s.deprecated)
    return sorted(names, key=lambda name: ("." in name, name))


def element_types(op: str) -> frozenset[str]:
    """Return the element types that the newest definition of an op allows for its first input, or
    else for its first output."""
    domain, _, name = op.rpartition(".")
    raw = defs.get_schema(name, domain=domain)
    first = [*raw.inputs, *raw.outputs][0].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in raw.type_constraints}
    return frozenset(_element(text) for text in allowed.get(first, [first]))


def _element(text: str) -> str:
    """Return the element type in a type: ``float32`` of ``seq(tensor(float))``."""
    return element_name(onnx.TensorProto.DataType.Value(re.findall(r"\w+", text)[-1].upper()))


def since_versions(op: str) -> list[int]:
    """Return the op set versions that introduced a definition of the op, in order."""
    history = defs.get_all_schemas_with_history()
    return sorted(s.since_version for s in history if _title(s) == op and not s.deprecated)


def _title(raw: defs.OpSchema) -> str:
    return f"{raw.domain}.{raw.name}" if raw.domain else raw.name
