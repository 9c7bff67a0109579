"""The functions by which segments record events, the times at which operations begin
(``runtime.events``).

A context is the block of addresses and settings of one share of a segment. Code reads once whether
its context has memory for events, and calls the functions only then:

    %recorded = icmp ne ptr %next.event, null
    br i1 %recorded, label %holds, label %done
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from tessella.codegen.lltypes import LLValue, scalar
from tessella.codegen.module_text import module_text
from tessella.runtime import events
from tessella.runtime.pool import CONTEXT
from tessella.targets import Target
from tessella.targets.table import family_of

NAME = "stamp"
"""The name of the module of these functions."""
DECLARATIONS = "declare void @stamp(ptr, i64) nounwind\ndeclare void @stamp.end(ptr) nounwind"
RECORDED = LLValue(scalar("i1"), "%recorded")
"""True if the context of a phase has memory for events."""


def load_recorded() -> Iterator[str]:
    """Yield the lines of LLVM IR that test whether the context has memory for events."""
    yield f"  %event.at = getelementptr inbounds i64, ptr %context, i64 {CONTEXT.index('event')}"
    yield "  %next.event = load ptr, ptr %event.at, align 8"
    yield f"  {RECORDED.text} = icmp ne ptr %next.event, null"


def write(number: int) -> str:
    """Return a call that records that the operation with this number begins."""
    return f"call void @stamp(ptr %context, i64 {number})"


def write_end() -> Iterator[str]:
    """Yield lines that record the end of a segment, and begin the block after them."""
    yield f"  br {RECORDED.typed}, label %stamp, label %end"
    yield from ("stamp:", "  call void @stamp.end(ptr %context)", "  br label %end", "end:")


_STAMPS = """\
define internal i64 @clock(ptr %context) #0 {
  %time = alloca [2 x i64], align 8
  %clock.slot = getelementptr i8, ptr %context, i64 $clock_gettime
  %id.slot = getelementptr i8, ptr %context, i64 $clock_id
  %clock = load ptr, ptr %clock.slot, align 8
  %id = load i32, ptr %id.slot, align 8
  %failed = call i32 %clock(i32 %id, ptr %time)
  %nanoseconds.at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time, align 8
  %nanoseconds = load i64, ptr %nanoseconds.at, align 8
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  ret i64 %sum
}
define internal i64 @ticks(ptr %context) #0 {
  %counts.slot = getelementptr i8, ptr %context, i64 $counts
  %counts = load i64, ptr %counts.slot, align 8
  %steady = icmp ne i64 %counts, 0
  br i1 %steady, label %counter, label %clock
counter:
  %count = call i64 $counter
  ret i64 %count
clock:
  %time = call i64 @clock(ptr %context)
  ret i64 %time
}
define internal void @event(ptr %context, i64 %time, i64 %number) #0 {
  %next.slot = getelementptr i8, ptr %context, i64 $event
  %last.slot = getelementptr i8, ptr %context, i64 $events_end
  %event = load ptr, ptr %next.slot, align 8
  %last = load ptr, ptr %last.slot, align 8
  %room = icmp ult ptr %event, %last
  br i1 %room, label %write, label %end
write:
  store i64 %time, ptr %event, align 8
  %number.at = getelementptr i8, ptr %event, i64 $number
  store i64 %number, ptr %number.at, align 8
  %following = getelementptr i8, ptr %event, i64 $size
  store ptr %following, ptr %next.slot, align 8
  br label %end
end:
  ret void
}
define dso_local void @stamp(ptr %context, i64 %number) #0 {
  %time = call i64 @ticks(ptr %context)
  call void @event(ptr %context, i64 %time, i64 %number)
  ret void
}
define dso_local void @stamp.end(ptr %context) #0 {
  %before = call i64 @ticks(ptr %context)
  %clock = call i64 @clock(ptr %context)
  %after = call i64 @ticks(ptr %context)
  call void @event(ptr %context, i64 %before, i64 $end)
  call void @event(ptr %context, i64 %clock, i64 $at_clock)
  call void @event(ptr %context, i64 %after, i64 $after)
  ret void
}
"""


def stamps(target: Target) -> str:
    """Return the LLVM module of the functions that record events. Once the memory for events is
    full, further events are dropped."""
    slots = {name: 8 * slot for slot, name in enumerate(CONTEXT)}
    text = Template(_STAMPS).substitute(
        slots,
        counter=family_of(target).counter,
        end=events.END,
        at_clock=events.CLOCK,
        after=events.AFTER,
        size=events.EVENT.itemsize,
        number=events.NUMBER,
    )
    return module_text(target, [text])
