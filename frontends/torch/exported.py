"""Programs of ``torch.export``, and modules, as sources of programs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from tessella.frontends.torch.decompositions import export_decompositions
from tessella.frontends.torch.library import library
from tessella.frontends.torch.partition import unserved
from tessella.frontends.torch.source import Result, TorchSource
from tessella.support.errors import InvalidModelError, OptionError, Unsupported, UnsupportedError

Exported = Any
"""An ExportedProgram."""


def module_source(module: Any, example_inputs: Sequence[Any] | None) -> TorchSource:
    """Return the source of a module for arguments of these shapes. Raises TessellaError."""
    if not isinstance(example_inputs, list | tuple):
        raise OptionError(
            "a module needs example inputs, with which it is exported",
            expected="a tuple of the arguments of a call",
            found=type(example_inputs).__name__,
            hint="tessella.compile(module, (x,))",
        )
    try:
        exported = library("torch.export").export(module, tuple(example_inputs))
    except Exception as error:  # Dynamo raises errors of many classes
        raise InvalidModelError(
            f"torch.export cannot export the module: {str(error).partition(chr(10))[0]}",
            where=type(module).__name__,
            hint="torch.export.export(module, args) tells why; torch.compile(module, "
            'backend="tessella") needs no whole graph',
        ) from error
    return exported_source(exported)


def exported_source(exported: Exported) -> TorchSource:
    """Return the source of an exported program. Buffers that it writes to are inputs and outputs
    under their names. Raises UnsupportedError that lists all ops that cannot be served."""
    with warnings.catch_warnings():
        # PyTorch copies a program by a class that it deprecates
        warnings.simplefilter("ignore", FutureWarning)
        plain = exported.run_decompositions(export_decompositions())
    module = plain.graph_module
    if left := unserved(module):
        raise UnsupportedError(
            [Unsupported(each.name, node.name, each.reason) for node, each in left.items()],
            hint='docs/aten.md has what is supported; torch.compile(module, backend="tessella") '
            "lets PyTorch run other ops",
        )
    written = {*plain.graph_signature.buffers_to_mutate.values()}
    return TorchSource(
        module,
        [*_results(plain)],
        {name: each for name, target, each in _constants(plain) if target not in written},
        {name: target for name, target, _ in _constants(plain) if target in written},
        plain.range_constraints,
    )


def _constants(exported: Exported) -> Iterator[tuple[str, str, Any]]:
    """Yield the placeholders of parameters, buffers and constants: the name of each, the name in
    the module, and the tensor."""
    signature = exported.graph_signature
    tensors = {**exported.constants, **exported.state_dict}
    for table in (
        signature.inputs_to_parameters,
        signature.inputs_to_buffers,
        signature.inputs_to_lifted_tensor_constants,
    ):
        for name, target in table.items():
            yield name, target, tensors[target]


def _results(exported: Exported) -> Iterator[Result]:
    """Yield the results of a program: those of the module, and the buffers that it has written."""
    signature = exported.graph_signature
    [output] = [node for node in exported.graph.nodes if node.op == "output"]
    inputs = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    written: list[Result] = []
    users: list[Any] = []
    for node in output.args[0]:
        name = getattr(node, "name", None)
        if name in inputs:
            written.append(Result(inputs[name], node))
        elif node is not None:
            users.append(node)
    for i, node in enumerate(users):
        yield Result("output" if len(users) == 1 else f"output_{i}", node)
    yield from written
