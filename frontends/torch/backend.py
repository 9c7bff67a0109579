"""``torch.compile(model, backend="tessella")``: graphs of AOTAutograd as programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from tessella.driver.model.in_calls import CompilesInCalls
from tessella.driver.model.model import Model
from tessella.driver.options import CheckedOptions, CompileOptions, make_options
from tessella.frontends.programs import USUAL
from tessella.frontends.torch.conversion import Node, is_tensor
from tessella.frontends.torch.decompositions import decompositions
from tessella.frontends.torch.library import library
from tessella.frontends.torch.partition import Left, partition, tensors_into, unserved
from tessella.frontends.torch.report import REPORTS, GraphReport
from tessella.frontends.torch.source import Result, TorchSource
from tessella.frontends.torch.tensors import array_of, tensor_of

Graph = Any
"""A GraphModule of torch.fx."""


def compile_graph(
    module: Graph,
    example_inputs: Sequence[Any],
    *,
    options: CompileOptions | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph that torch.compile has captured: the entry point of the backend.

    Parameters
    ----------
    module : GraphModule
        The graph.
    example_inputs : sequence
        Its inputs.
    options : dict, optional
        Options of ``tessella.compile``: ``places``, ``target``, ``threads``, ``fallback``,
        ``timeout`` and ``options``.
    mode : str, optional
        Ignored: a mode of Inductor.

    Returns
    -------
    callable
        The compiled graph.

    Raises
    ------
    OptionError
        If an option is wrong.
    """
    given = options or {}
    compiler = partial(served, Settings(make_options(**given), given.get("threads")))
    backend = library("torch._dynamo.backends.common").aot_autograd(
        fw_compiler=partial(compiler, "forward"),
        bw_compiler=partial(compiler, "backward"),
        inference_compiler=partial(compiler, "inference"),
        decompositions=decompositions(),
        partition_fn=library("functorch.compile").min_cut_rematerialization_partition,
    )
    return backend(module, example_inputs)


class Settings(NamedTuple):
    """Options of the programs of a graph."""

    options: CheckedOptions
    threads: int | None = None
    """The number of threads that a program runs on; None for that of PyTorch."""


def served(
    settings: Settings, kind: str, module: Graph, inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Return a graph of ATen ops whose parts are programs."""
    context = library("torch._guards").TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    fixed: set[int] = set()
    if kind == "inference" and metadata is not None:
        fixed.update(metadata.static_input_indices)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    frozen = {node.name for i, node in enumerate(placeholders) if i in fixed}
    count = sum(node.op == "call_function" for node in module.graph.nodes)
    left = unserved(module)
    REPORTS.add(report := GraphReport(kind, count, left.values()))
    ordered = _ordered(module, left, _returned(kind, module, metadata))
    for name in partition(module, {*left, *ordered}):
        part = GraphPart(module.get_submodule(name), frozen, settings)
        report.models.append(part.models)
        # it is called as a module is, but has no parameters of its own
        module.delete_submodule(name)
        module.__dict__[name] = part
    module.recompile()
    return library("functorch.compile").make_boxed_func(module.forward)


def _returned(kind: str, module: Graph, metadata: Any) -> list[Node]:
    """Return the results that PyTorch passes to the user, or makes views of: it relies on their
    strides. The others are saved for the backward graph."""
    if kind == "backward":
        return []
    [output] = [node for node in module.graph.nodes if node.op == "output"]
    count = None if metadata is None or kind == "inference" else metadata.num_forward
    return [node for node in output.args[0][:count] if hasattr(node, "meta")]


def _ordered(module: Graph, left: Mapping[Node, Left], returned: Sequence[Node]) -> set[Node]:
    """Give the tensors that PyTorch's own ops read, and those that are returned, the strides that
    it expects: our results are contiguous. Returns the nodes that do so."""
    [output] = [node for node in module.graph.nodes if node.op == "output"]
    pairs = [(node, each) for node in left for each in tensors_into(node)]
    found: set[Node] = set()
    for user, each in [*pairs, *((output, each) for each in returned)]:
        value = each.meta["val"]
        if not is_tensor(value) or each in left or value.is_contiguous():
            continue
        with module.graph.inserting_before(user):
            made = module.graph.call_function(with_order, (each, _order(value.stride())))
            made.meta = dict(each.meta)
        user.replace_input_with(each, made)
        found.add(made)
    return found


def _order(strides: Sequence[Any]) -> list[int]:
    """Return the dimensions from the longest stride to the shortest; symbolic strides count as in
    the first call."""
    known = [each if isinstance(each, int) else each.node.hint for each in strides]
    return sorted(range(len(known)), key=lambda d: -known[d])


def with_order(tensor: Any, order: Sequence[int]) -> Any:
    """Return a tensor whose dimensions lie in memory in this order."""
    moved = tensor.permute(order)
    if moved.is_contiguous():
        return tensor
    return moved.contiguous().permute([order.index(d) for d in range(len(order))])


class GraphPart:
    """A part of a graph that is one program for all sizes, compiled at its first call.

    For inference, parameters are constants of the program, which packs them. Once one of them is
    another tensor or has been written to, another program reads them at each call.
    """

    def __init__(self, module: Graph, frozen: set[str], settings: Settings) -> None:
        self._source = partial(_source, module)
        self._settings = settings
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._frozen = [i for i, node in enumerate(nodes) if node.name in frozen]
        self._names = [node.name for node in nodes]
        self._versions: list[tuple[Any, int]] = []
        """The parameters that are constants of the program, with their versions."""
        self._fixed: _CompiledGraph | None = None
        self._general: _CompiledGraph | None = None
        self.models: list[Model] = []

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        program = self._program(args)
        return program.run(args)

    def _program(self, args: Sequence[Any]) -> _CompiledGraph:
        if not self._frozen:
            return self._reading()
        if self._fixed is None:
            self._versions = [(args[i], args[i]._version) for i in self._frozen]
            constants = {self._names[i]: args[i] for i in self._frozen}
            self._fixed = self._made(constants)
        for i, (tensor, version) in zip(self._frozen, self._versions, strict=True):
            if args[i] is not tensor or tensor._version != version:
                return self._reading()
        return self._fixed

    def _reading(self) -> _CompiledGraph:
        if self._general is None:
            self._general = self._made({})
        return self._general

    def _made(self, constants: Mapping[str, Any]) -> _CompiledGraph:
        made = _CompiledGraph(self._source(constants), self._names, self._settings)
        self.models.append(made.model)
        return made


def _source(module: Graph, constants: Mapping[str, Any]) -> TorchSource:
    [output] = [node for node in module.graph.nodes if node.op == "output"]
    results = [Result(f"result_{i}", each) for i, each in enumerate(output.args[0])]
    return TorchSource(module, results, constants)


class _CompiledGraph:
    """A model, and how tensors become its inputs and its results tensors."""

    def __init__(self, source: TorchSource, names: Sequence[str], settings: Settings) -> None:
        self._taken = [names.index(node.name) for node in source.taken]
        self._numbers = source.numbers
        self._threads = settings.threads
        in_calls = CompilesInCalls(expected=USUAL, tells_numpy=True)
        self.model = Model(
            source,
            settings.options,
            openness=source.bounds,
            elements=source.elements,
            in_call=True,
            in_calls=in_calls,
        )

    def run(self, args: Sequence[Any]) -> tuple[Any, ...]:
        # both pools of threads would compete for the cores
        self.model.threads = self._threads or library().get_num_threads()
        arrays = [_array(args[i]) for i in self._taken]
        results = self.model.run_in_order(arrays)
        return tuple(
            tensor_of(array) if number is None else number(array.item())
            for array, number in zip(results, self._numbers, strict=True)
        )


def _array(value: Any) -> Any:
    return array_of(value) if isinstance(value, library().Tensor) else value
