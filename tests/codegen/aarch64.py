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

from tessella.runtime.image import Image

AVAILABLE = importlib.util.find_spec("unicorn") is not None
BASE, SIZE = 0x1000_0000, 16 << 20
STACK = 64 << 10
RET, END = 0xD65F03C0, BASE
"""An instruction; and where threads return to."""
LONGEST = 400
"""Instructions of a turn at most."""
ALONE = 1 << 24
"""Where there is one thread."""
STOPS, LONG_STOP = 0.2, 100
"""How often a thread loses its core, and for how many turns of others at most."""

_PAGE = 4096
_NEAR = 1 << 20
"""Memory of this process is mapped in pieces of so many bytes."""

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

    @property
    def result(self) -> int:
        """Return the function's result, if it is a number."""
        return ctypes.c_int64(self.argument(0)).value

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
    """Memory, an image, and threads."""

    def __init__(self, image: Image, seed: int) -> None:
        self.unicorn: Any = pytest.importorskip("unicorn")
        self.registers: Any = importlib.import_module("unicorn.arm64_const")
        self._random = random.Random(seed)
        self.memory = mmap.mmap(-1, SIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self._free = BASE + mmap.PAGESIZE
        self._nanoseconds = 0
        self.returned = 0
        """By the last function that was called."""
        self.threads: list[Thread] = []
        self.stops = False
        """True if threads other than the caller's lose their core for long, at any instruction."""
        self._stopped: dict[Thread, int] = {}
        """For how many turns of others."""
        self.cores: dict[Thread, int] = {}
        """The cores of threads that are not on one of their own."""
        self.running = 1
        """How many threads want to run, as the system tells."""
        self.stacks: list[int] = []
        """Those of threads that are over."""
        self.system: Mapping[str, System] = {
            "syscall": self._syscall,
            "clock_gettime": self._clock,
            "pthread_create": self._create,
            "sched_getcpu": self._core,
            "sched_getaffinity": self._affinity,
            "sched_setaffinity": self._move,
            "read": self._load_average,
            "sscanf": self._scan,
            "memcpy": _copy,
            "memset": _fill,
        } | dict.fromkeys(_NOTHING, lambda thread, arguments: 0)
        self.system_at = self.take(4 * len(self.system))
        for i in range(len(self.system)):
            self.put(self.system_at + 4 * i, struct.pack("<I", RET))
        self.functions = {name: self.system_function(name) for name in self.system}
        self._load(image)

    def take(self, size: int) -> int:
        """The address of so many zeros, in their own lines."""
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
            longest = LONGEST if len(self.threads) > 1 else ALONE
            self._next(caller).turn(self._random.randint(1, longest))
        self.threads.remove(caller)
        self.stacks.append(caller.stack)
        self.returned = caller.result

    def _next(self, caller: Thread) -> Thread:
        """The thread whose turn it is."""
        if self.stops:
            self._stopped = {thread: left - 1 for thread, left in self._stopped.items() if left > 1}
            thread = self._random.choice(self.threads)
            if thread is not caller and self._random.random() < STOPS:
                self._stopped[thread] = self._random.randint(1, LONG_STOP)
        return self._random.choice([t for t in self.threads if t not in self._stopped])

    def host(self, address: int) -> int:
        """Return the host address of the memory that the emulated cores have at an address."""
        return self.start + address - BASE if BASE <= address < BASE + SIZE else address

    def system_function(self, name: str) -> int:
        """Return the address of a function of the system."""
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

    def _core(self, thread: Thread, arguments: Sequence[int]) -> int:
        return self.cores.get(thread, self.threads.index(thread))

    def _affinity(self, thread: Thread, arguments: Sequence[int]) -> int:
        self.put(arguments[2], bytes([255, 255]))
        return 0

    def _move(self, thread: Thread, arguments: Sequence[int]) -> int:
        """A thread goes to the first core of the set if its own is not in it."""
        allowed = int.from_bytes(self.get(arguments[2], 2), "little")
        if not allowed >> self._core(thread, ()) & 1:
            self.cores[thread] = (allowed & -allowed).bit_length() - 1
        return 0

    def _load_average(self, thread: Thread, arguments: Sequence[int]) -> int:
        text = f"0.52 0.58 0.59 {self.running}/467 9\n".encode()
        self.put(arguments[1], text)
        return len(text)

    def _scan(self, thread: Thread, arguments: Sequence[int]) -> int:
        text = self.get(arguments[0], 64).split(b"\0")[0].decode()
        self.put(arguments[2], struct.pack("<q", int(text.split()[3].split("/")[0])))
        return 1

    def _load(self, image: Image) -> None:
        start = self.take(len(image.code) + _PAGE)
        start += -start % _PAGE
        self.put(start, bytes(image.code))
        for name, at in image.imports.items():
            self.put(start + at, struct.pack("<Q", self.functions[name]))
        for name, function in image.functions.items():
            self.functions[name] = start + function.offset


def _copy(thread: Thread, arguments: Sequence[int]) -> int:
    to, source, size, *_ = arguments
    return ctypes.memmove(thread.machine.host(to), thread.machine.host(source), size)


def _fill(thread: Thread, arguments: Sequence[int]) -> int:
    where, value, size, *_ = arguments
    return ctypes.memset(thread.machine.host(where), value, size)


_NOTHING = (*("pthread_sigmask", "pthread_setname_np", "snprintf"), *("open", "close"))
"""Functions of the system that need not do anything here."""
