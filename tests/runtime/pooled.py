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
from tessella.runtime.program import NativeStep, Program, TensorSpec

COUNT = 4096
"""Numbers in the input and the output of each segment."""

_HEAD = (
    'define void @"$NAME"(ptr %context, ptr %inputs, ptr %outputs, ptr %weights, ptr %arena, '
    "i64 %thread, i64 %threads) #0 {"
)
_BARRIER = """
define internal void @meet(ptr %context, i64 %threads) #0 {
entry:
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %call, label %end
call:
  %slot = getelementptr i64, ptr %context, i64 1
  %barrier = load ptr, ptr %slot
  call void %barrier(ptr %context)
  br label %end
end:
  ret void
}
"""

SUMS = """
entry:
  %x = load ptr, ptr %inputs
  %y = load ptr, ptr %outputs
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r1, %met ]
  %from = phi ptr [ %x, %entry ], [ %to, %met ]
  %odd = and i64 %r, 1
  %is.odd = icmp ne i64 %odd, 0
  %to = select i1 %is.odd, ptr %y, ptr %arena
  %first = call i64 @part(i64 %thread, i64 %threads)
  %next = add i64 %thread, 1
  %last = call i64 @part(i64 %next, i64 %threads)
  br label %head
head:
  %i = phi i64 [ %first, %round ], [ %i1, %body ]
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
  call void @meet(ptr %context, i64 %threads)
  br label %met
met:
  %r1 = add i64 %r, 1
  %again = icmp slt i64 %r1, $ROUNDS
  br i1 %again, label %round, label %end
end:
  ret void
}
define internal i64 @part(i64 %thread, i64 %threads) #0 {
  %a = mul i64 %thread, 4096
  %b = sdiv i64 %a, %threads
  ret i64 %b
}
"""
"""Each thread computes its part of ``a[i] = 3 a[i] + a[i + 1]``, so many times; between, they
meet."""

NOBODY_FAILS, FAILS = -1, 3
CHECK = """
entry:
  %x = load ptr, ptr %inputs
  %at = getelementptr i64, ptr %x, i64 %thread
  %code = load i64, ptr %at
  %good = icmp eq i64 %code, 0
  br i1 %good, label %end, label %bad
bad:
  store i64 %code, ptr %context
  br label %end
end:
  call void @meet(ptr %context, i64 %threads)
  %y = load ptr, ptr %outputs
  %y.at = getelementptr i64, ptr %y, i64 %thread
  store i64 %threads, ptr %y.at
  ret void
}
"""
"""Thread `t` fails with the status ``x[t]``, and tells the number of threads in ``y[t]``."""


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
    return module_text(target, [head, *body.splitlines(), *_BARRIER.splitlines()])


def program(library: Library, *names: str, shared: bool = True, brief: bool = False) -> Program:
    """A program that runs segments one after another, each on the output of the one before."""
    spec = TensorSpec((COUNT,), np.dtype(np.int64))
    steps = [
        NativeStep(n, 8 * COUNT, (i,), (i + 1,), (spec,), shared, brief=brief)
        for i, n in enumerate(names)
    ]
    return Program(1, tuple(steps), (len(steps),), {}, [], {4: ["four"], 6: ["six"]}, library)


def sums(rounds: int) -> str:
    """The body of SUMS with so many rounds, an even number."""
    return SUMS.replace("$ROUNDS", str(rounds))


def summed(x: np.ndarray, rounds: int) -> np.ndarray:
    """What SUMS computes."""
    for _ in range(rounds):
        x = 3 * x + np.roll(x, -1)
    return x
