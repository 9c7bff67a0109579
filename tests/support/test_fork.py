"""A process that forks while another of its threads is at work: the child is not stuck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMON = """
import faulthandler, os, sys, threading, time
import numpy as np
import tessella

def network(n):
    def f(x, w):
        y = x @ w + float(n)
        return tessella.exp(y - tessella.max(y, axis=-1, keepdims=True)) @ w.T
    return f

x, w = np.ones((4, 8), np.float32), np.ones((8, 8), np.float32)

def in_child(check, seconds=60):
    "Fork; the child has to come to the end of check in time."
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            check()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(2)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        os._exit(1)  # the other threads never end

reached = threading.Event()

def start(work):
    "Begin work in another thread."
    threading.Thread(target=work, daemon=True).start()

def start_until_reached(work):
    start(work)
    assert reached.wait(60), "the other thread never came to where the fork is to happen"
"""

COMPILING = """
def compile_forever():
    for n in range(1, 1 << 30):
        tessella.jit(network(n))(x, w)
        shared(np.ones((n % 9 + 1, 8), np.float32), w)

def check():
    y = tessella.jit(network(-round))(x, w)
    np.testing.assert_allclose(y, 8.0)
    shared(np.ones((round + 20, 8), np.float32), w)

shared = tessella.jit(network(0))
shared(x, w)
start(compile_forever)
for round in range(3):
    time.sleep(0.03 * round)
    in_child(check)
os._exit(0)
"""

TRACING = """
@tessella.jit
def held(x):
    if threading.current_thread() is not threading.main_thread():
        reached.set()
        time.sleep(3600)
    return x + 1

def check():
    np.testing.assert_array_equal(held(x), x + 1)

start_until_reached(lambda: held(x))
in_child(check)
os._exit(0)
"""

IMPORTING = """
import importlib.abc, importlib.machinery

class Slow(importlib.abc.MetaPathFinder):
    "Finds one module, slowly, in the middle of the import of another."
    def find_spec(self, name, path, target=None):
        if name == "tessella.driver.model.model":
            reached.set()
            time.sleep(1)

sys.meta_path.insert(0, Slow())

def check():
    np.testing.assert_array_equal(tessella.jit(lambda x: x + 1)(x), x + 1)

import tessella.support.fork
start_until_reached(lambda: tessella.compile)
in_child(check)
os._exit(0)
"""

COLLECTING = """
import gc
from tessella.support.collector import no_collection

def hold():
    with no_collection():
        reached.set()
        time.sleep(3600)

def check():
    assert gc.isenabled()
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()

start_until_reached(hold)
in_child(check)
os._exit(0)
"""

CASES = {
    "compiling": COMPILING, "tracing": TRACING, "importing": IMPORTING, "collecting": COLLECTING,
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_the_child_works(name: str, tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(COMMON + CASES[name])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
