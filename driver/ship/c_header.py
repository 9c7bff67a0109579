"""The C header of a model: its template, and the names that it reserves.

The template contains the C code that is the same for all models: how the caller's threads run a
phase, for example.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template

from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.pool import CONTEXT, CONTEXT_SLOTS, LINE

WEIGHTS = ("object", "file")
"""The choices for storing weights: in the object file, or in a separate file."""

_OTHERS = CONTEXT_SLOTS - 1 - CONTEXT.index("shares")
"""The number of context slots after ``shares``. Only profiled code and code with symbols read
them."""

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

/* Threads of the caller, for a call. */
struct ${name}_threads {
  int count; /* the parts into which work is divided */
  /* Calls task(argument, i) for each i below count, in any order, on any threads; returns when all
     have returned. A call of the model does so for each of its phases. */
  void (*parallel)(void *self, int count, void (*task)(void *argument, int i), void *argument);
  void *self; /* for parallel */
};
$weights_declaration
/* The arguments of a part of the model. */
struct ${name}_arguments {
  void *contexts;
  const void *const *inputs;
  void *const *outputs;
  const void *const *weights;
  void *arena, *privates;
  int64_t stride;
};
$declarations

struct __attribute__((may_alias)) ${name}_context {
  int64_t status;
  void (*launch)(void *context, void (*function)(void *, int64_t, int64_t), void *args);
  void *watch;
  const struct ${name}_threads *threads;
  void *record;
  int64_t shares, others[$others];
};

struct ${name}_phase {
  void (*function)(void *args, int64_t share, int64_t shares);
  void *args;
  int64_t shares;
};

static inline void ${name}_share(void *argument, int share)
{
  const struct ${name}_phase *phase = (const struct ${name}_phase *)argument;
  phase->function(phase->args, share, phase->shares);
}

static inline void ${name}_launch(void *context, void (*function)(void *, int64_t, int64_t),
    void *args)
{
  const struct ${name}_threads *threads = ((struct ${name}_context *)context)->threads;
  struct ${name}_phase phase = {function, args, threads->count};
  threads->parallel(threads->self, threads->count, ${name}_share, &phase);
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
  struct ${name}_context *context = (struct ${name}_context *)workspace;
  int count = threads && threads->count > 1 ? threads->count : 1;
  const unsigned char *constants = $weights_base;
  const void *const table[] = {$weights};
  unsigned char *arena = (unsigned char *)workspace + (size_t)count * $line;
  int64_t status = 0;
  memset(context, 0, (size_t)count * sizeof *context);
  context->launch = count > 1 ? ${name}_launch : NULL;
  context->threads = threads;
  context->shares = count;
  (void)constants;
  (void)arena;
$body
$copies
  for (int i = 0; i < count; i++)
    if (context[i].status && (!status || context[i].status < status))
      status = context[i].status;
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

SEGMENT = "extern void {symbol}(const struct {name}_arguments *arguments);"


def header(name: str, values: Mapping[str, object]) -> str:
    """Return the header of a model whose functions begin with ``name``."""
    fixed = {
        "name": name,
        "upper": name.upper(),
        "alignment": ALIGNMENT,
        "line": LINE,
        "others": _OTHERS,
    }
    return Template(_TEXT).substitute(fixed, **values)


def comment(text: str) -> str:
    """Return ``text`` with everything replaced that could end a C comment: names in models may
    contain any characters."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


RESERVED = frozenset(
    """
    memory status weights workspace inputs outputs memcpy memset auto break case char const continue
    default do double else enum extern float for goto if inline int long register restrict return
    short signed sizeof static struct switch typedef union unsigned void volatile while class new
    delete this template operator private public protected virtual namespace using try catch throw
    bool true false and or not xor
    arena argument constants context contexts count i parallel passed table task threads NULL size_t
    """.split()
)
"""Names reserved by C, C++ or the header."""
