"""From a module at some stage to an executable program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from tessella import targets
from tessella.codegen import pool, stamps
from tessella.codegen.emit import emit, emit_kernel
from tessella.codegen.link import link
from tessella.codegen.llvm import assembly
from tessella.codegen.objects import Compilation, prepare
from tessella.dialects import tile
from tessella.dialects.graph import CompileContext, Graph, elements_of, main_function
from tessella.dialects.nn.constants import SplatOp, WeightOp, weight_array
from tessella.dialects.nn.core import Array, NnOp, dtype_of, shape_of, tensor_type
from tessella.dialects.nn.recurrent import ScanOp
from tessella.dialects.nn.symbolic import TrimOp
from tessella.dialects.nn.traits import definitions
from tessella.dialects.place import CastOp, CopyOp, is_apart, place_of
from tessella.dialects.printing import to_text
from tessella.dialects.rt import KernelOp, LaunchOp, divided, memory_shape
from tessella.dialects.sizes import symbols_in
from tessella.dialects.verify import verify, verify_program
from tessella.driver.build.buildable import check_buildable
from tessella.driver.build.compiling import LLVM_WORK, Progress, Timings, quiet
from tessella.driver.build.device_step import device_step
from tessella.driver.build.pipeline import pipeline
from tessella.driver.build.plugged import Stages, is_builtin
from tessella.driver.build.run_passes import PassObserver, PassRunner, check
from tessella.driver.build.timed_calls import timed_calls
from tessella.driver.options import CheckedOptions
from tessella.driver.stages.stages import IR_STAGES
from tessella.kernels.registry import picked_kernel
from tessella.passes.base import buffer_segments, buffer_weights
from tessella.runtime import perf_map, sharing
from tessella.runtime.device_steps import HOST, CopyStep
from tessella.runtime.devices import Fields
from tessella.runtime.elements import full
from tessella.runtime.host_steps import HostStep
from tessella.runtime.image import Library
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.program import Program, ScanStep, Step
from tessella.runtime.specs import Constant, TensorSpec
from tessella.runtime.symbols import (
    DefinedSymbol,
    Dimension,
    ElementSymbol,
    GivenSymbol,
    SymbolSource,
)
from tessella.runtime.trim_steps import TrimStep
from tessella.runtime.weights import WeightStore
from tessella.support import deadline
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import InternalError, OptionError
from tessella.support.knobs import KNOBS
from tessella.support.logs import debug
from tessella.support.sizes import Size, Symbol
from tessella.targets import Target

_MANY = 16
"""The least number of ops of a program for which worker processes start before its passes run.
Starting them takes a while."""


@dataclass
class StagedProgram:
    """A program lowered to the `loops` stage, together with its earlier stages."""

    stages: dict[str, ModuleOp]
    weights: WeightStore
    options: CheckedOptions
    timings: Timings = field(default_factory=Timings)
    """Seconds of each pass by name, and of the steps after the passes."""

    @property
    def target(self) -> Target:
        return targets.resolve(self.options.target)

    @property
    def nodes(self) -> Mapping[str, Sequence[str]]:
        """The nodes that each kernel computes, by the kernel's name: ONNX nodes, or lines of
        Python."""
        kernels = (op for op in self.stages["loops"].ops if isinstance(op, KernelOp))
        return {
            op.sym_name.data: [name.data for name in op.nodes]
            for op in kernels
            if op.nodes is not None
        }

    def llvm(self) -> dict[str, str]:
        """Return the LLVM IR by kernel and segment, without the functions that write events."""
        texts = emit(self.stages["loops"], self.target)
        return {name: text for name, text in texts.items() if name != stamps.NAME}


def lower(
    graph: Graph,
    options: CheckedOptions,
    *,
    start: str = "nn",
    stop: str = "loops",
    progress: Progress = quiet,
    compilation: Compilation | None = None,
    observer: PassObserver | None = None,
    stages: Stages | None = None,
) -> StagedProgram:
    """Run the pipeline from one stage to another. The graph's module and weights are consumed.

    ``stages`` is the pipeline; by default, that of the options.
    A ``compilation`` receives the text of each kernel as soon as it is written; a caller that
    passes one verifies the lowered module itself. The ``observer`` sees the program around each
    pass. A pass that crashes raises InternalError or PluginError: see ``crash``.
    """
    ctx, module = CompileContext(graph.weights), graph.module
    lowered = StagedProgram({start: module}, graph.weights, options)
    first, last = IR_STAGES.index(start), IR_STAGES.index(stop)
    runner = PassRunner(ctx, lowered.timings, progress, observer or PassObserver(), options.passes)
    if compilation is not None and _is_large(module):
        prepare()
    with deadline.within(options.timeout):
        for stage, passes in (stages or pipeline(options))[first:last]:
            lowered.stages[_before(stage)] = module
            if stage == "tile":
                check_buildable(module, options.arch)
            # a foreign pass might change a kernel later
            if (
                stage == "loops"
                and compilation is not None
                and all(is_builtin(step, options.passes) for step in passes)
            ):
                ctx.lowered = partial(_compile_kernel, compilation, lowered.target)
            lowered.stages[stage] = module = runner.run(stage, passes, module)
    if not KNOBS.verify and compilation is None:
        check(module, "lowering", verify)
    return lowered


def _is_large(module: ModuleOp) -> bool:
    ops = (op for op in module.walk() if op.operands and isinstance(op, NnOp | tile.KernelOp))
    return sum(1 for _ in islice(ops, _MANY)) == _MANY


def _compile_kernel(compilation: Compilation, target: Target, kernel: KernelOp) -> None:
    compilation.add(kernel.sym_name.data, emit_kernel(kernel, target))


def _before(stage: str) -> str:
    return IR_STAGES[IR_STAGES.index(stage) - 1]


@dataclass(frozen=True)
class Built:
    """A program, and the stages that it passed through."""

    program: Program
    lowered: StagedProgram


def build(
    graph: Graph, options: CheckedOptions, progress: Progress = quiet, *, bare: bool = False
) -> Built:
    """Build the program of a graph, for any machine. The graph's weights are consumed.

    A ``bare`` program has no pool, and writes no events.
    """
    with Compilation(targets.resolve(options.target)) as compilation:
        lowered = lower(
            graph, options, start=graph.stage, progress=progress, compilation=compilation
        )
        return _load(lowered, compilation, progress, bare=bare)


def _load(
    lowered: StagedProgram, compilation: Compilation, progress: Progress, *, bare: bool
) -> Built:
    module, timings = lowered.stages["loops"], lowered.timings
    with timings.of("emit"):
        texts = emit(module, lowered.target, without=compilation.names, events=not bare)
        compilation.add_all(texts)
    if not KNOBS.verify:
        with timings.of("verify"):
            check(module, "lowering", verify_program)  # workers compile meanwhile
    numbers = count(1)

    def done(name: str) -> None:
        text = f"code {next(numbers)}/{len(compilation.names)}: {name}"
        progress(text)
        debug("llvm", text)

    with timings.of("llvm"):
        objects = compilation.objects(done)
    timings[LLVM_WORK] = compilation.work
    with timings.of("link"):
        files = {**objects.files, **({} if bare else _pool(lowered))}
        library = Library(link(files, objects.symbols, lowered.nodes))
        weights = _weight_table(lowered)
        program = _Assembler(lowered, library, main_function(module), weights).program()
        program.calls = timed_calls(module)
    return Built(program, lowered)


def _pool(lowered: StagedProgram) -> Mapping[str, bytes]:
    """Return the object file of the thread pool's code, by its name; an empty mapping if no segment
    is divided among threads."""
    several = divided(lowered.stages["loops"].body.block)
    return {pool.NAME: pool.pool_object(lowered.target)} if several else {}


def _weight_table(lowered: StagedProgram) -> list[Array]:
    """Return the weights of the segments by slot, shared with other programs.

    Weights that the host does not read are dropped from the store, so that none is in memory twice.
    """
    module = lowered.stages["loops"]
    slots = {w.slot.value.data: w.weight_name for w in buffer_weights(module) if w.slot is not None}
    arrays = [lowered.weights[slots[slot]] for slot in sorted(slots)]
    host = (op for function in module.ops if isinstance(function, FuncOp) for op in function.walk())
    lowered.weights.keep({op.symbol.root_reference.data for op in host if isinstance(op, WeightOp)})
    return sharing.packed(arrays)


def as_text(lowered: StagedProgram, stage: str) -> str:
    """Return the program at a stage as text. Raises OptionError for an unknown or dropped stage."""
    check_stage(stage, [*lowered.stages, "llvm", "asm"])
    if stage in lowered.stages:
        return to_text(lowered.stages[stage]) + "\n"
    texts = lowered.llvm()
    if stage == "llvm":
        return "\n".join(texts.values())
    return "\n".join(
        f"# {perf_map.label(name, lowered.nodes.get(name, ()))}\n{assembly(text, lowered.target)}"
        for name, text in texts.items()
    )


def check_stage(stage: object, known: Sequence[str]) -> None:
    """Raise OptionError unless ``stage`` is one of ``known``, names of stages."""
    if not isinstance(stage, str) or stage not in known:
        raise OptionError(f"no stage {stage!r}", expected=f"one of {', '.join(known)}")


class _Assembler:
    """A builder of a program from a function: ``@main``, or the body of a scan."""

    def __init__(
        self,
        lowered: StagedProgram,
        library: Library,
        function: FuncOp,
        weights: Sequence[Array],
    ) -> None:
        self.lowered = lowered
        self.library = library
        self.module = lowered.stages["loops"]
        self.function = function
        self.segments = {op.sym_name.data: op for op in buffer_segments(self.module)}
        self.divided = divided(self.module.body.block)
        self.numbers: dict[SSAValue, int] = {}
        self.table = weights
        """The weights of the segments, by slot."""
        self.weights = [*weights]
        """The weights of the segments, followed by the host's constants."""

    def program(self) -> Program:
        for argument in self.function.body.block.args:
            self._number(argument)
        steps: list[Step] = []
        constants: dict[int, Constant] = {}
        results: tuple[int, ...] = ()
        for op in self.function.body.block.ops:
            inputs = tuple(self.numbers[v] for v in op.operands)
            if isinstance(op, CopyOp) and _memory(op.source) == _memory(op.res):
                self.numbers[op.res] = inputs[0]
                continue
            outputs = tuple(self._number(r) for r in op.results)
            match op:
                case SplatOp():
                    one = full((), op.number, dtype_of(op.res.type))
                    constants[outputs[0]] = self._constant(op.res, one)
                case WeightOp():
                    array = weight_array(op, self.lowered.weights)
                    constants[outputs[0]] = self._constant(op.res, array)
                case ReturnOp():
                    results = inputs
                case _:
                    steps.append(self._step(op, inputs, outputs))
        return Program(
            inputs=len(self.function.body.block.args),
            steps=tuple(steps),
            results=results,
            constants=constants,
            weights=sharing.packed(self.weights),
            nodes=self._nodes(),
            symbols=self._symbols(),
            code=self.library,
        )

    def _symbols(self) -> tuple[SymbolSource, ...]:
        """Return the module's symbols, each with the dimension or element of @main's inputs from
        which its value is read, or with the step that defines it. The symbols of a loop's body get
        their values from the loop.

        Raises UndecidedSizeError if a symbol is not the size of a dimension or the value of an
        element.
        """
        found: dict[Size, tuple[type[Dimension | ElementSymbol], int, int]] = {}
        main = main_function(self.module)
        if self.function is not main:
            return tuple(map(GivenSymbol, symbols_in(self.module)))
        for i, argument in enumerate(main.body.block.args):
            for axis, size in enumerate(shape_of(argument)):
                found.setdefault(size, (Dimension, i, axis))
        for i, elements in elements_of(main).items():
            for index, size in enumerate(elements):
                found.setdefault(size, (ElementSymbol, i, index))
        symbols, defined = symbols_in(self.module), self._defined()
        missing = [s.name for s in symbols if s.size not in found and s not in defined]
        if missing:
            raise UndecidedSizeError("no dimension of an input is the symbol alone", missing)
        return tuple(
            defined[symbol] if symbol in defined else _source(symbol, *found[symbol.size])
            for symbol in symbols
        )

    def _defined(self) -> Mapping[Symbol, DefinedSymbol]:
        """Return where the ops of the function define symbols."""
        ops = self.function.body.block.ops
        found = ((d, self.numbers[op.results[d.result]]) for op in ops for d in definitions(op))
        return {d.symbol: DefinedSymbol(d.symbol, i, d.axis, d.most) for d, i in found}

    def _step(self, op: Operation, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step:
        match op:
            case LaunchOp():
                segment = self.segments[op.callee_name]
                if segment.device is not None:
                    specs = tuple(map(_spec, op.res))
                    return device_step(self.module, segment, inputs, outputs, specs)
                return self._native(op, inputs, outputs)
            case CopyOp():
                (start, _), (end, fields) = _memory(op.source), _memory(op.res)
                once = op.once is not None
                ends = (inputs[0],), (outputs[0],)
                return CopyStep(start, end, *ends, _spec(op.res), once, fields)
            case ScanOp():
                specs = tuple(map(_spec, op.res[op.loop.carried :]))
                return ScanStep(self._body(op), op.loop, inputs, outputs, specs)
            case TrimOp() if definitions(op):
                (x, number), (y,) = inputs, outputs
                return TrimStep(op.node, x, number, y, _spec(op.res))
            case NnOp():
                return self._host(op, inputs, outputs)
            case CastOp():
                spec = _spec(op.res)
                to = {"to": spec.dtype}
                return HostStep("nn.cast", op.name, inputs, outputs, to, (spec,))
            case _:
                raise InternalError(f"{op.name} is not a program step")

    def _body(self, op: ScanOp) -> Program:
        function = op.function
        if not isinstance(function, FuncOp):
            raise InternalError(f"the module has no function @{op.body_name}")
        return _Assembler(self.lowered, self.library, function, self.table).program()

    def _host(self, op: NnOp, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> HostStep:
        function = picked_kernel(op).function or op.name
        specs = tuple(map(_spec, op.results))
        return HostStep(function, op.node, inputs, outputs, op.settings, specs)

    def _constant(self, value: SSAValue, array: Array) -> Constant:
        self.weights.append(array)
        return Constant(len(self.weights) - 1, TensorSpec(shape_of(value), array.dtype))

    def _number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def _native(
        self, op: LaunchOp, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> NativeStep:
        name = op.callee_name
        specs = tuple(map(_spec, op.res))
        segment, shared = self.segments[name], name in self.divided
        sizes = segment.arena_size, segment.private_size
        brief = segment.brief is not None
        return NativeStep(name, sizes[0], inputs, outputs, specs, shared, sizes[1], brief)

    def _nodes(self) -> dict[int, list[str]]:
        return {
            op.code.value.data: [name.data for name in op.nodes]
            for op in self.module.ops
            if isinstance(op, KernelOp) and op.code is not None and op.nodes is not None
        }


def _source(
    symbol: Symbol, kind: type[Dimension | ElementSymbol], input: int, at: int
) -> SymbolSource:
    return kind(symbol, input, at)


def _memory(value: SSAValue) -> tuple[str, Fields]:
    """Return the name of the device whose memory holds a value, `host` for CPUs, and the
    device-defined fields (such as a memory space) of the value's place."""
    place = place_of(value.type)
    if place is None or not is_apart(place.device.data):
        return HOST, ()
    return place.device.data, place.fields


def _spec(value: SSAValue) -> TensorSpec:
    return TensorSpec(memory_shape(value), dtype_of(tensor_type(value).element_type))
