"""Segments for tests of the pool, as LLVM IR, and programs of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tessella import targets
from tessella.codegen import pool
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.codegen.module_text import module_text
from tessella.runtime.image import Library
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.program import Program
from tessella.runtime.specs import TensorSpec

COUNT = 4096
"""Numbers in the input and the output of each segment."""

_HEAD = """
define void @"$NAME"(ptr %arguments) #0 {
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %outputs.at = getelementptr ptr, ptr %arguments, i64 2
  %arena.at = getelementptr ptr, ptr %arguments, i64 4
  %contexts = load ptr, ptr %arguments
  %inputs = load ptr, ptr %inputs.at
  %outputs = load ptr, ptr %outputs.at
  %arena = load ptr, ptr %arena.at
  call void @inner(ptr %contexts, ptr %inputs, ptr %outputs, ptr %arena)
  ret void
}
define internal void @inner(ptr %contexts, ptr %inputs, ptr %outputs, ptr %arena) #0 {"""
_LAUNCH = """
define internal void @launch(ptr %contexts, ptr %phase, ptr %args) #0 {
entry:
  %slot = getelementptr i64, ptr %contexts, i64 1
  %function = load ptr, ptr %slot
  %alone = icmp eq ptr %function, null
  br i1 %alone, label %here, label %together
here:
  call void %phase(ptr %args, i64 0, i64 1)
  ret void
together:
  call void %function(ptr %contexts, ptr %phase, ptr %args)
  ret void
}
"""

LAUNCH_SUM = "@launch(ptr %contexts, ptr @sum, ptr %args)"
SUMS = """
entry:
  %args = alloca [7 x ptr]
  %to.at = getelementptr ptr, ptr %args, i64 1
  %x = load ptr, ptr %inputs
  %y = load ptr, ptr %outputs
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r1, %round ]
  %from = phi ptr [ %x, %entry ], [ %to, %round ]
  %odd = and i64 %r, 1
  %is.odd = icmp ne i64 %odd, 0
  %to = select i1 %is.odd, ptr %y, ptr %arena
  store ptr %from, ptr %args
  store ptr %to, ptr %to.at
  call void $LAUNCH
  %r1 = add i64 %r, 1
  %again = icmp slt i64 %r1, $ROUNDS
  br i1 %again, label %round, label %end
end:
  ret void
}
define internal void @sum(ptr %args, i64 %share, i64 %shares) #0 {
entry:
  %to.at = getelementptr ptr, ptr %args, i64 1
  %from = load ptr, ptr %args
  %to = load ptr, ptr %to.at
  %first = call i64 @part(i64 %share, i64 %shares)
  %next = add i64 %share, 1
  %last = call i64 @part(i64 %next, i64 %shares)
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %i1, %body ]
  %more = icmp slt i64 %i, %last
  br i1 %more, label %body, label %done
body:
  %i1 = add i64 %i, 1
  %j = and i64 %i1, 4095
  %a.at = getelementptr i64, ptr %from, i64 %i
  %b.at = getelementptr i64, ptr %from, i64 %j
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %c = mul i64 %a, 3
  %d = add i64 %c, %b
  %d.at = getelementptr i64, ptr %to, i64 %i
  store i64 %d, ptr %d.at
  br label %head
done:
  ret void
}
define internal i64 @part(i64 %share, i64 %shares) #0 {
  %a = mul i64 %share, 4096
  %b = sdiv i64 %a, %shares
  ret i64 %b
}
"""
"""Each share is a part of ``a[i] = 3 a[i] + a[i + 1]``, in as many phases as there are rounds."""

CHECK = """
entry:
  %args = alloca [7 x ptr]
  %x.at = getelementptr ptr, ptr %args, i64 1
  %y.at = getelementptr ptr, ptr %args, i64 2
  %x = load ptr, ptr %inputs
  %y = load ptr, ptr %outputs
  store ptr %contexts, ptr %args
  store ptr %x, ptr %x.at
  store ptr %y, ptr %y.at
  call void @launch(ptr %contexts, ptr @look, ptr %args)
  ret void
}
define internal void @look(ptr %args, i64 %share, i64 %shares) #0 {
entry:
  %x.at = getelementptr ptr, ptr %args, i64 1
  %y.at = getelementptr ptr, ptr %args, i64 2
  %contexts = load ptr, ptr %args
  %x = load ptr, ptr %x.at
  %y = load ptr, ptr %y.at
  %at = getelementptr i64, ptr %x, i64 %share
  %code = load i64, ptr %at
  %place = getelementptr i64, ptr %y, i64 %share
  store i64 %shares, ptr %place
  %good = icmp eq i64 %code, 0
  br i1 %good, label %end, label %bad
bad:
  %offset = mul i64 %share, 128
  %context = getelementptr i8, ptr %contexts, i64 %offset
  store i64 %code, ptr %context
  br label %end
end:
  ret void
}
"""
"""Share `t` fails with the status ``x[t]``, and tells the number of shares in ``y[t]``."""


def compiled(bodies: Mapping[str, str]) -> Library:
    """Segments of these bodies, by name."""
    target = targets.native()
    objects = {name: image(target, name, body) for name, body in bodies.items()}
    return Library(link({**objects, pool.NAME: pool.pool_object(target)}))


def image(target: targets.Target, name: str, body: str) -> bytes:
    """The object of a segment."""
    return optimize_and_emit(_text(target, name, body), target)


def _text(target: targets.Target, name: str, body: str) -> str:
    head = _HEAD.replace("$NAME", name)
    return module_text(target, [*head.splitlines(), *body.splitlines(), *_LAUNCH.splitlines()])


def program(library: Library, *names: str, shared: bool = True, brief: bool = False) -> Program:
    """A program that runs segments one after another, each on the output of the one before."""
    spec = TensorSpec((COUNT,), np.dtype(np.int64))
    steps = [
        NativeStep(n, 8 * COUNT, (i,), (i + 1,), (spec,), shared, brief=brief)
        for i, n in enumerate(names)
    ]
    return Program(1, tuple(steps), (len(steps),), {}, [], {4: ["four"], 6: ["six"]}, library)


def sums(rounds: int, launch: str = LAUNCH_SUM) -> str:
    """The body of SUMS with so many rounds, an even number."""
    return SUMS.replace("$ROUNDS", str(rounds)).replace("$LAUNCH", launch)


def summed(x: np.ndarray, rounds: int) -> np.ndarray:
    """Return the result of SUMS."""
    for _ in range(rounds):
        x = 3 * x + np.roll(x, -1)
    return x
