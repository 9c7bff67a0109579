"""AArch64 code with several threads on another machine: each thread is an emulated core, and all
have the same memory, which includes that of this process. They take turns of a random number of
instructions. What one writes, the others see at once: memory has no weak order here.

`unicorn` emulates. Functions of the system are Python's.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import mmap
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.codegen.elf import Symbol, sections, symbols

AVAILABLE = importlib.util.find_spec("unicorn") is not None
BASE, SIZE = 0x1000_0000, 16 << 20
STACK = 64 << 10
RET, END = 0xD65F03C0, BASE
"""An instruction; and where threads return to."""
LONGEST = 400
"""Instructions of a turn at most."""

_PAGE = 0xFFF
_NEAR = 1 << 20
"""Memory of this process is mapped in pieces of so many bytes."""
_LDST_SCALES = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""By the kind of a relocation of a load or store: the shift of its offset."""

System = Callable[["Thread", Sequence[int]], int]


class Thread:
    """A core that runs one function. It is over when the function has returned."""

    def __init__(self, machine: Machine, function: int, arguments: Sequence[int]) -> None:
        self.machine = machine
        self.uc: Any = machine.unicorn.Uc(
            machine.unicorn.UC_ARCH_ARM64, machine.unicorn.UC_MODE_ARM
        )
        self.uc.mem_map_ptr(BASE, SIZE, machine.unicorn.UC_PROT_ALL, machine.start)
        self.uc.hook_add(machine.unicorn.UC_HOOK_MEM_UNMAPPED, self._map)
        self.at = function
        # NEON is on, as under Linux
        self._write("CPACR_EL1", 3 << 20)
        self.stack = machine.stacks.pop() if machine.stacks else machine.take(STACK)
        self._write("SP", self.stack + STACK)
        self._write("X30", END)
        for i, value in enumerate(arguments[:8]):
            self._write(f"X{i}", value)
        last = machine.system_at + 4 * len(machine.system)
        self.uc.hook_add(
            machine.unicorn.UC_HOOK_CODE, self._call, None, machine.system_at, last - 1
        )

    @property
    def is_over(self) -> bool:
        return self.at == END

    def turn(self, count: int) -> None:
        """Run so many instructions, or fewer where the thread waits."""
        self.uc.emu_start(self.at, END, count=count)
        self.at = self.uc.reg_read(self._register("PC"))

    def argument(self, number: int) -> int:
        return self.uc.reg_read(self._register(f"X{number}"))

    def _call(self, uc: Any, address: int, size: int, data: object) -> None:
        """A function of the system is a return, before which Python runs."""
        function = list(self.machine.system.values())[(address - self.machine.system_at) // 4]
        self._write("X0", function(self, [self.argument(i) for i in range(8)]))

    def _map(self, uc: Any, access: int, address: int, size: int, value: int, data: object) -> bool:
        """Memory of this process is where it is."""
        found = next((r for r in _ranges() if r.start <= address < r.stop), None)
        if found is not None:
            start = max(found.start, address // _NEAR * _NEAR)
            size = min(found.stop, (address // _NEAR + 1) * _NEAR) - start
            uc.mem_map_ptr(start, size, self.machine.unicorn.UC_PROT_ALL, start)
        return found is not None

    def _register(self, name: str) -> int:
        return getattr(self.machine.registers, f"UC_ARM64_REG_{name}")

    def _write(self, name: str, value: int) -> None:
        self.uc.reg_write(self._register(name), value)


def _ranges() -> list[range]:
    """The memory of this process that can be written to."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ends = (line.split()[0].split("-") for line in lines if line.split()[1].startswith("rw"))
    return [range(int(start, 16), int(end, 16)) for start, end in ends]


class Machine:
    """Memory, the code of some objects, and threads."""

    def __init__(self, images: Sequence[bytes], seed: int) -> None:
        self.unicorn: Any = pytest.importorskip("unicorn")
        self.registers: Any = importlib.import_module("unicorn.arm64_const")
        self._random = random.Random(seed)
        self.memory = mmap.mmap(-1, SIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self._free = BASE + mmap.PAGESIZE
        self._nanoseconds = 0
        self.threads: list[Thread] = []
        self.stacks: list[int] = []
        """Those of threads that are over."""
        self.system: Mapping[str, System] = {
            "syscall": self._syscall,
            "clock_gettime": self._clock,
            "pthread_create": self._create,
            "memcpy": _copy,
            "memset": _fill,
        } | dict.fromkeys(_NOTHING, lambda thread, arguments: 0)
        self.system_at = self.take(4 * len(self.system))
        for i in range(len(self.system)):
            self.put(self.system_at + 4 * i, struct.pack("<I", RET))
        self.functions = {name: self.system_function(name) for name in self.system}
        placed = [(image, self._place(image)) for image in images]
        for image, places in placed:
            self._relocate_all(image, places)

    def take(self, size: int) -> int:
        """The address of so many zeros, in lines of their own."""
        address = self._free
        self._free += -(-size // 128) * 128
        assert self._free <= BASE + SIZE
        return address

    def put(self, address: int, data: bytes) -> None:
        """Write to memory."""
        self.memory[address - BASE : address - BASE + len(data)] = data

    def get(self, address: int, size: int) -> bytes:
        """Read memory."""
        return self.memory[address - BASE : address - BASE + size]

    def call(self, function: int, *arguments: int) -> None:
        """Run the function at an address, in turns with the threads that there are."""
        caller = self._started(function, arguments)
        while not caller.is_over:
            self._random.choice(self.threads).turn(self._random.randint(1, LONGEST))
        self.threads.remove(caller)
        self.stacks.append(caller.stack)

    def host(self, address: int) -> int:
        """Where memory is that the cores have at an address."""
        return self.start + address - BASE if BASE <= address < BASE + SIZE else address

    def system_function(self, name: str) -> int:
        """Where a function of the system is."""
        return self.system_at + 4 * list(self.system).index(name)

    def _started(self, function: int, arguments: Sequence[int]) -> Thread:
        self.threads.append(Thread(self, function, arguments))
        return self.threads[-1]

    # ** the system **

    def _syscall(self, thread: Thread, arguments: Sequence[int]) -> int:
        """`gettid`, or a `futex`, which may wake a thread for no reason, and always does."""
        return 0

    def _clock(self, thread: Thread, arguments: Sequence[int]) -> int:
        self._nanoseconds += 20_000
        self.put(arguments[1], struct.pack("<qq", *divmod(self._nanoseconds, 10**9)))
        return 0

    def _create(self, thread: Thread, arguments: Sequence[int]) -> int:
        self._started(arguments[2], [arguments[3]])
        return 0

    # ** linking **

    def _place(self, image: bytes) -> Mapping[int, int]:
        """Where the sections of an object are, by number."""
        parts = sections(image)
        places = {i: self.take(part.size) for i, part in enumerate(parts) if part.is_loaded}
        for i, place in places.items():
            self.put(place, parts[i].data)
        for symbol in symbols(image):
            if symbol.section in places and symbol.name:
                self.functions[symbol.name] = places[symbol.section] + symbol.value
        return places

    def _relocate_all(self, image: bytes, places: Mapping[int, int]) -> None:
        names = symbols(image)
        for part in sections(image):
            if part.info in places:
                for at, kind, symbol, addend in part.relocations:
                    target = self._target(names[symbol], places) + addend
                    self._relocate(places[part.info] + at, kind, target)

    def _target(self, symbol: Symbol, places: Mapping[int, int]) -> int:
        if symbol.section in places:
            return places[symbol.section] + symbol.value
        return self.functions[symbol.name]

    def _relocate(self, at: int, kind: int, target: int) -> None:
        """ELF for the Arm 64-bit architecture, 5.7."""
        (word,) = struct.unpack("<I", self.get(at, 4))
        if kind == 257:
            self.put(at, struct.pack("<Q", target))
            return
        if kind in (282, 283):
            word |= (target - at) >> 2 & 0x3FFFFFF
        elif kind == 275:
            pages = (target >> 12) - (at >> 12)
            word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        elif kind == 277:
            word |= (target & _PAGE) << 10
        else:
            word |= (target & _PAGE) >> _LDST_SCALES[kind] << 10
        self.put(at, struct.pack("<I", word))


def _copy(thread: Thread, arguments: Sequence[int]) -> int:
    to, source, size, *_ = arguments
    return ctypes.memmove(thread.machine.host(to), thread.machine.host(source), size)


def _fill(thread: Thread, arguments: Sequence[int]) -> int:
    where, value, size, *_ = arguments
    return ctypes.memset(thread.machine.host(where), value, size)


_NOTHING = (
    *("sched_yield", "sched_getcpu", "sched_setaffinity"),
    *("pthread_sigmask", "pthread_setname_np", "snprintf"),
)
"""Functions of the system that need not do anything here."""
