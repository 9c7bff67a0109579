"""The keywords and functions in which the dialects of C differ. ``c.py`` writes trees with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tessella.codegen.semtree import tree


@dataclass(frozen=True)
class Words:
    """The keywords and functions of one dialect of C."""

    kernel: str
    """The qualifiers and the result of a kernel; `{items}` is the size of its work-groups, the only
    one for which the driver has to generate code."""
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
    load_half: str
    """The load of an `f16` as a float, from the array ``name`` in memory of the qualifier
    ``space``."""
    store_half: str
    """The store of a float as an `f16`."""
    halves: str
    """The functions that convert `f16`: ``to_half`` rounds a float to the nearest `f16`."""
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
    """The type of an element in memory, where it is not that of a scalar."""

    def type_in_memory(self, element: str) -> str:
        """Return the type of an element in memory."""
        return self.stored.get(element) or self.types[element]

    @property
    def prelude(self) -> str:
        """The functions that kernels call: a maximum and a minimum that propagate NaN, the check of
        a coordinate, and the rounding to `f16`."""
        long, word = self.types["i64"], self.spaces["global"]
        return _PRELUDE.format(f=self.function, long=long, word=word) + self.halves


_PRELUDE = """\
{f}float max_of(float a, float b) {{ return a > b || isnan(a) ? a : b; }}
{f}float min_of(float a, float b) {{ return a < b || isnan(a) ? a : b; }}
{f}{long} checked({long} at, {long} size, {word}int *word) {{
  if (at >= 0 && at < size) return at;
  *word = 1;
  return 0;
}}
"""

_OPENCL_HALVES = """\
float to_half(float a) {
  ushort bits;
  vstore_half_rte(a, 0, (__private half *)&bits);
  return vload_half(0, (__private half *)&bits);
}
"""
"""Every device has these functions; arithmetic on `half` would be an extension."""
_CUDA_HALVES = """\
static __device__ float of_half(unsigned short a) {
  float b;
  asm("cvt.f32.f16 %0, %1;" : "=f"(b) : "h"(a));
  return b;
}
static __device__ unsigned short as_half(float a) {
  unsigned short b;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(a));
  return b;
}
static __device__ float to_half(float a) { return of_half(as_half(a)); }
"""
"""The header with these functions is not part of every installation of NVRTC."""

OPENCL = Words(
    kernel="__kernel void __attribute__((reqd_work_group_size({items}, 1, 1)))",
    function="",
    spaces={"global": "__global ", "local": "__local ", "private": ""},
    ids={tree.GROUP_ID: "get_group_id(0)", tree.ITEM_ID: "get_local_id(0)"},
    barrier="barrier(CLK_LOCAL_MEM_FENCE)",
    nan="NAN",
    infinity="INFINITY",
    types={"f32": "float", "f16": "float", "bool": "int", "i32": "int", "i64": "long"},
    unsigned={"bool": "uint", "i32": "uint", "i64": "ulong"},
    load_half="vload_half({at}, ({space}half *){name})",
    store_half="vstore_half_rte({value}, {at}, ({space}half *){name})",
    halves=_OPENCL_HALVES,
    stored={"bool": "uchar", "f16": "ushort"},
)
CUDA = Words(
    kernel='extern "C" __global__ void __launch_bounds__({items})',
    function="static __device__ ",
    spaces={"global": "", "local": "__shared__ ", "private": ""},
    ids={tree.GROUP_ID: "blockIdx.x", tree.ITEM_ID: "threadIdx.x"},
    barrier="__syncthreads()",
    nan="__int_as_float(0x7fc00000)",
    infinity="__int_as_float(0x7f800000)",
    types={"f32": "float", "f16": "float", "bool": "int", "i32": "int", "i64": "long long"},
    unsigned={"bool": "unsigned int", "i32": "unsigned int", "i64": "unsigned long long"},
    load_half="of_half({name}[{at}])",
    store_half="{name}[{at}] = as_half({value})",
    halves=_CUDA_HALVES,
    stored={"bool": "unsigned char", "f16": "unsigned short"},
)
