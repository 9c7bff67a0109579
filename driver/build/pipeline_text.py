"""Passes as text, in the syntax of `tessella-opt -p`."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterType


def pipeline_text(steps: Iterable[ModulePass]) -> str:
    """Return passes with their non-default options, separated by commas."""
    return ",".join(_spec_text(step.spec()) for step in steps)


def _spec_text(spec: ArgSpec) -> str:
    options = [
        "=".join(filter(None, (name.replace("_", "-"), ",".join(map(_value_text, values)))))
        for name, values in spec.parameters.items()
    ]
    return f"{spec.name}{{{' '.join(options)}}}" if options else spec.name


def _value_text(value: ParameterType) -> str:
    """Return a value as text that parses to the same value: xDSL prints strings without escapes."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case _:
            return str(value)
