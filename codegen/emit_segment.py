"""Segments: functions that call the kernels of a program, in phases. Threads run a phase together
and wait for each other at its end; a share is the part of a phase that one thread runs.

    void NAME(args)                         the entry
    void NAME.body(args)                    runs phases, and loops between them
    void phase.0(args, share, shares)       one share of a phase
    void NAME.phase(args, share, shares)    the phase of a segment that has only one

``args`` is a table in memory: ``ARGUMENTS`` of ``runtime.pool``. The thread that called the program
runs the entry and the body; any thread may run a share. Each share has a context, a block of
addresses and settings. If a context has memory for events, the share records the times at which its
operations begin (``runtime.events``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.dialects import memref
from xdsl.ir import Operation

from tessella.codegen.emit_scan import scan
from tessella.codegen.emit_steps import SHARE, SHARES, STEPS, end_phase
from tessella.codegen.lltypes import I64, constant, quote
from tessella.codegen.module_text import module_text
from tessella.codegen.sizes import size_value
from tessella.codegen.stamps import DECLARATIONS, load_recorded, write_end
from tessella.codegen.symbols import BODY, PHASE
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.runtime.pool import ARGUMENTS, LINE
from tessella.support.sizes import Size
from tessella.targets import Target

_HANDLERS: Mapping[str, Handler] = {op.name: handler for op, handler in STEPS.items()}
_LAUNCH = f"""\
define internal void @launch(ptr %args, ptr %phase) #0 {{
  %context = load ptr, ptr %args, align 8
  %slot = getelementptr inbounds i64, ptr %context, i64 {rt.LAUNCH_SLOT}
  %function = load ptr, ptr %slot, align 8
  %alone = icmp eq ptr %function, null
  br i1 %alone, label %here, label %together
here:
  call void %phase(ptr %args, i64 0, i64 1)
  ret void
together:
  call void %function(ptr %context, ptr %phase, ptr %args)
  ret void
}}"""
"""The function `launch`: it runs a phase on the threads of the run, or on the caller alone."""


def emit_segment(
    segment: rt.SegmentOp,
    target: Target,
    symbols: Sequence[str],
    divided: frozenset[str],
    stamps: Mapping[Operation, int] | None,
) -> str:
    """Return the LLVM module of a segment, which calls kernels and segments of other modules.

    ``divided`` names the kernels and segments that several threads run together. ``stamps`` gives
    the number of the event that is recorded before each operation; None for code that records no
    events.
    """
    return _Segment(segment, target, symbols, divided, stamps).text()


class _Segment:
    """The functions of a segment while they are being written."""

    def __init__(
        self,
        segment: rt.SegmentOp,
        target: Target,
        symbols: Sequence[str],
        divided: frozenset[str],
        stamps: Mapping[Operation, int] | None,
    ) -> None:
        self.segment = segment
        self.target = target
        self.name = segment.sym_name.data
        self.symbols = symbols
        self.divided = divided
        self.stamps = stamps
        self.helpers: dict[str, str] = {} if stamps is None else {"stamp": DECLARATIONS}

    def text(self) -> str:
        """Return the module's text."""
        functions = [*self._entry(), *self._body()]
        return module_text(self.target, [*functions, *self.helpers.values()])

    def _entry(self) -> Iterator[str]:
        yield f"define void @{quote(self.name)}(ptr noundef %args) #0 {{"
        yield "entry:"
        if self.stamps is not None:
            yield "  %context = load ptr, ptr %args, align 8"  # share 0 writes the stamp
            yield from load_recorded()
        yield f"  call void @{quote(self.name + BODY)}(ptr %args)"
        if self.stamps is not None:
            yield from write_end()
        yield from ("  ret void", "}")

    def _body(self) -> Iterator[str]:
        """Yield the lines of the body, after the phases that it runs."""
        steps = [*rt.phases(self.segment)]
        is_only = len(steps) == 1 and isinstance(steps[0], rt.Phase)
        w = self._writer()
        self._bind(w, [step for step in steps if isinstance(step, rt.ScanOp)])
        for number, step in enumerate(steps):
            if isinstance(step, rt.ScanOp):
                scan(w, step, None)
                continue
            name = quote(self.name + PHASE if is_only else f"phase.{number}")
            # `dso_local`, as an image has no table of addresses
            linkage = "dso_local" if is_only else "internal"
            yield from self._phase(f"{linkage} void @{name}", step)
            if step.is_divided(self.divided):
                self.helpers["launch"] = _LAUNCH
                w.line(f"call void @launch(ptr %args, ptr @{name})")
            else:
                w.line(f"call void @{name}(ptr %args, i64 0, i64 1)")
        first = constant(I64, 0).text
        yield from _function(f"void @{quote(self.name + BODY)}(ptr %args)", first, w.lines)

    def _phase(self, head: str, phase: rt.Phase) -> Iterator[str]:
        w = self._writer()
        w.values[self.segment.thread], w.values[self.segment.threads] = SHARE, SHARES
        self._bind(w, phase.ops)
        calls = [len(op.buffers) for op in phase.ops if isinstance(op, rt.CallOp)]
        if calls:
            w.line(f"%buffers = alloca [{max(calls) + 1} x ptr], align 8")
            w.line("store ptr %context, ptr %buffers, align 8")
        w.run(phase.ops)
        end_phase(w, phase.barrier)
        recorded: Iterable[str] = () if self.stamps is None else load_recorded()
        head = f"{head}(ptr %args, {SHARE.typed}, {SHARES.typed})"
        # Calls alone are no better after LLVM's optimisations, which take longer than all else.
        has_loops = any(isinstance(op, rt.ScanOp) for op in phase.ops)
        attributes = "noinline #0" if has_loops else "noinline optnone #0"
        return _function(head, SHARE.text, [*recorded, *w.lines], attributes)

    def _writer(self) -> Writer:
        return Writer(
            self.target,
            _HANDLERS,
            helpers=self.helpers,
            divided=self.divided,
            stamps=self.stamps,
            symbols=self.symbols,
        )

    def _bind(self, w: Writer, ops: Sequence[Operation]) -> None:
        """Write code that loads the pointers which the ops read and write, and computes the
        symbolic sizes."""
        used = dict.fromkeys(operand for op in ops for operand in op.operands)
        owners = [v.owner for v in used if isinstance(v.owner, rt.ArenaOp | rt.WeightOp)]
        for size in _sizes([*owners, *ops]):
            size_value(w, size)
        for array, arguments in (
            ("%inputs", self.segment.inputs),
            ("%outputs", self.segment.outputs),
        ):
            for slot, argument in enumerate(arguments):
                if argument in used:
                    w.load_pointer(argument, array, slot)
        w.run(owners)


def _function(head: str, share: str, lines: Iterable[str], attributes: str = "#0") -> Iterator[str]:
    """Yield the lines of a function that first loads the arguments from ``args``, and computes the
    pointers to its share's context and private memory."""
    yield f"define {head} {attributes} {{"
    yield "entry:"
    for number, name in enumerate(ARGUMENTS):
        kind = "i64" if name == "stride" else "ptr"
        yield f"  %{name}.at = getelementptr inbounds i64, ptr %args, i64 {number}"
        yield f"  %{name} = load {kind}, ptr %{name}.at, align 8"
    for name, array, stride in (("context", "contexts", LINE), ("private", "privates", "%stride")):
        yield f"  %{name}.offset = mul nuw i64 {share}, {stride}"
        yield f"  %{name} = getelementptr inbounds i8, ptr %{array}, i64 %{name}.offset"
    yield from lines
    yield from ("  ret void", "}")


def _sizes(ops: Iterable[Operation]) -> Iterator[Size]:
    """Yield the sizes that the ops use at run time, those in nested blocks included."""
    for op in ops:
        if isinstance(op, rt.ArenaOp):
            yield op.extent[0]
        elif isinstance(op, memref.CopyOp):
            yield rt.buffer_bytes(op.source.type)
        elif isinstance(op, rt.ScanOp):
            if op.steps is not None:
                yield from (op.steps, op.steps - 1)
            yield from (rt.buffer_bytes(op.element(x)) for x in op.sequences)
            yield from (rt.buffer_bytes(x.type) for x in op.spare)
