"""The words of the dialects of C in which kernels are written.

``c.py`` writes trees with these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tessella.codegen.semtree import tree


@dataclass(frozen=True)
class Words:
    """The words of a dialect of C."""

    kernel: str
    """The qualifiers and the result of a kernel."""
    function: str
    """The qualifiers of a function that kernels call."""
    spaces: Mapping[str, str]
    """The qualifier of each kind of memory, and a space."""
    ids: Mapping[str, str]
    """The numbers of the work-group and of the work-item."""
    barrier: str
    nan: str
    infinity: str
    types: Mapping[str, str]
    """The type of a scalar, by element."""
    unsigned: Mapping[str, str]
    """The unsigned type of an integer, by element."""
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
    """The type of an element in memory, where it is not that of a scalar."""

    def type_in_memory(self, element: str) -> str:
        """Return the type of an element in memory."""
        return self.stored.get(element) or self.types[element]

    @property
    def prelude(self) -> str:
        """The functions that kernels call: a maximum and a minimum that propagate NaN, and the
        check of a coordinate."""
        return _PRELUDE.format(f=self.function, long=self.types["i64"], word=self.spaces["global"])


_PRELUDE = """\
{f}float max_of(float a, float b) {{ return a > b || isnan(a) ? a : b; }}
{f}float min_of(float a, float b) {{ return a < b || isnan(a) ? a : b; }}
{f}{long} checked({long} at, {long} size, {word}int *word) {{
  if (at >= 0 && at < size) return at;
  *word = 1;
  return 0;
}}
"""

OPENCL = Words(
    kernel="__kernel void",
    function="",
    spaces={"global": "__global ", "local": "__local ", "private": ""},
    ids={tree.GROUP_ID: "get_group_id(0)", tree.ITEM_ID: "get_local_id(0)"},
    barrier="barrier(CLK_LOCAL_MEM_FENCE)",
    nan="NAN",
    infinity="INFINITY",
    types={"f32": "float", "bool": "int", "i32": "int", "i64": "long"},
    unsigned={"bool": "uint", "i32": "uint", "i64": "ulong"},
    stored={"bool": "uchar"},
)
CUDA = Words(
    kernel='extern "C" __global__ void',
    function="static __device__ ",
    spaces={"global": "", "local": "__shared__ ", "private": ""},
    ids={tree.GROUP_ID: "blockIdx.x", tree.ITEM_ID: "threadIdx.x"},
    barrier="__syncthreads()",
    nan="__int_as_float(0x7fc00000)",
    infinity="__int_as_float(0x7f800000)",
    types={"f32": "float", "bool": "int", "i32": "int", "i64": "long long"},
    unsigned={"bool": "unsigned int", "i32": "unsigned int", "i64": "unsigned long long"},
    stored={"bool": "unsigned char"},
)
