"""The header of a model for C: a template, and names that are those of C.

All code that is not generated is here: how threads start, wait for each other, and end. It has no
atomic operations but loads and stores, so that it needs no library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template

from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.pool import CONTEXT_SLOTS, LINE

PAUSE = {"x86": "__builtin_ia32_pause()", "arm": '__asm__ volatile("yield")'}
"""What a thread does that waits."""

WEIGHTS = ("object", "file")
"""Where weights can be: in the object, or in a file of their own."""

_FIELDS = 6
"""Of a context before the boxes. Code that is not profiled reads the first three, as in `pool`."""

BOXES = CONTEXT_SLOTS - _FIELDS
"""Of a context: one for each round of a barrier."""

_TEXT = """\
/* $title

   Written by $versions.
   Link $name.o. It needs memcpy, memmove and memset of libc, and a machine with $target. */

#ifndef ${upper}_H
#define ${upper}_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the workspace of a call on so many threads, which starts at a multiple of $alignment. It
   holds nothing between calls; calls at the same time need one each. */
#define ${upper}_WORKSPACE_OF(threads) ($shared + (size_t)(threads) * $private)
#define ${upper}_WORKSPACE ${upper}_WORKSPACE_OF(1)
#define ${upper}_MOST_THREADS $most

/* Threads for a call, of the caller. */
struct ${name}_threads {
  int count; /* at most ${upper}_MOST_THREADS */
  /* Calls task(argument, i) for each i below count, AT THE SAME TIME, on a thread each, as they
     wait for each other; returns when all have returned. */
  void (*parallel)(void *self, int count, void (*task)(void *argument, int thread), void *argument);
  void *self; /* for parallel */
  int (*yield)(void); /* such as sched_yield: for threads that wait; NULL if each has a core */
};
$weights_declaration
$declarations

struct ${name}_call {
$fields
  const unsigned char *weights;
  unsigned char *memory;
  int (*yield)(void);
  int threads;
};

struct __attribute__((may_alias)) ${name}_context {
  int64_t status;
  void (*barrier)(void *context);
  void *watch;
  const struct ${name}_call *call;
  int32_t thread, threads;
  int64_t phase, boxes[$boxes];
};

/* Each thread tells others that it is here, and waits until it was told, in log2(threads) rounds:
   D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988. */
static inline void ${name}_barrier(void *pointer)
{
  struct ${name}_context *own = (struct ${name}_context *)pointer, *all = own - own->thread;
  own->phase++;
  for (int64_t round = 0, distance = 1; distance < own->threads; round++, distance *= 2) {
    int64_t other = (own->thread + distance) % own->threads;
    __atomic_store_n(&all[other].boxes[round], own->phase, __ATOMIC_RELEASE);
    for (unsigned looks = 1; __atomic_load_n(&own->boxes[round], __ATOMIC_ACQUIRE) < own->phase;
         looks++) {
      if (looks % 1024 == 0 && own->call->yield)
        own->call->yield();
      $pause;
    }
  }
}

static inline void ${name}_task(void *argument, int thread)
{
  const struct ${name}_call *call = (const struct ${name}_call *)argument;
  unsigned char *memory = call->memory;
  struct ${name}_context *context = (struct ${name}_context *)memory + thread;
  const void *const weights[] = {$weights};
  unsigned char *arena = memory + (size_t)call->threads * $line;
  (void)arena;
$body
}

/* Run the model. Arrays are contiguous, and do not overlap:
$parameters$weights_note
   threads may be NULL: the caller's thread runs the model alone then, on ${upper}_WORKSPACE bytes.
   Results have the same bits for any number of threads.
   Returns 0, or another number if an index in the inputs is out of range; outputs are undefined
   then. It may be called by several threads at once. */
static inline int ${name}_run_on($arguments, void *workspace,
    const struct ${name}_threads *threads)
{
  struct ${name}_call call = {$members, $weights_base, (unsigned char *)workspace, NULL, 1};
  struct ${name}_context *contexts = (struct ${name}_context *)workspace;
  int64_t status = 0;
  if (threads && threads->count > 1) {
    call.threads = threads->count;
    call.yield = threads->yield;
  }
  memset(contexts, 0, (size_t)call.threads * sizeof *contexts);
  for (int i = 0; i < call.threads; i++) {
    contexts[i].barrier = ${name}_barrier;
    contexts[i].call = &call;
    contexts[i].thread = i;
    contexts[i].threads = call.threads;
  }
  if (call.threads > 1)
    threads->parallel(threads->self, call.threads, ${name}_task, &call);
  else
    ${name}_task(&call, 0);
$copies
  for (int i = 0; i < call.threads; i++)
    if (contexts[i].status && (!status || contexts[i].status < status))
      status = contexts[i].status;
  return (int)status;
}

/* The same, on the thread of the caller. */
static inline int ${name}_run($arguments, void *workspace)
{
  return ${name}_run_on($passed, workspace, NULL);
}

#ifdef __cplusplus
}
#endif
#endif
"""

SEGMENT = (
    "extern void {symbol}(void *context, const void *const *inputs, void *const *outputs,\n"
    "    const void *const *weights, void *arena, int64_t thread, int64_t threads);"
)


def header(name: str, arch: str, values: Mapping[str, object]) -> str:
    """The header of a model whose functions begin with ``name``."""
    fixed = {
        "name": name,
        "upper": name.upper(),
        "alignment": ALIGNMENT,
        "line": LINE,
        "boxes": BOXES,
        "most": 1 << BOXES,
        "pause": PAUSE[arch],
    }
    return Template(_TEXT).substitute(fixed, **values)


def comment(text: str) -> str:
    """What cannot end a comment: names in models are anybody's."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


RESERVED = frozenset(
    """
    memory status weights workspace inputs outputs memcpy memset auto break case char const continue
    default do double else enum extern float for goto if inline int long register restrict return
    short signed sizeof static struct switch typedef union unsigned void volatile while class new
    delete this template operator private public protected virtual namespace using try catch throw
    bool true false and or not xor
    arena argument call context contexts count i own parallel task thread threads yield NULL size_t
    """.split()
)
"""Names that C, C++ or the header have."""
