"""A machine without a home, without space on its disk, with somebody at its keyboard."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella import Model, targets
from tessella.driver.stages.stage_file import load_stage, save_stage, weights_path
from tessella.driver.tune import calibrate
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import OptionError, ResourceError, TessellaError
from tessella.targets import machine, measured
from tests.hostile.limits import gigabytes
from tests.hostile.models import X, Y, mixed

ROOT = Path(__file__).parents[2]
PROGRAM = "import numpy, tessella; print(tessella.ops.relu(numpy.array([-1.0, 2.0])).tolist())"
Environment = Mapping[str, str | None]


def python(
    *arguments: str, cwd: Path = ROOT, changes: Environment | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the output of a Python process with another environment; None unsets a variable."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **(changes or {})}
    known = {name: text for name, text in environment.items() if text is not None}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=known,
        check=False,
    )


@pytest.mark.sweep
@pytest.mark.parametrize(
    "changes",
    [
        {"HOME": None, "XDG_CACHE_HOME": "not/absolute"},
        {"HOME": "/nowhere", "XDG_CACHE_HOME": "/dev/null", "TESSELLA_PLUGINS": "0"},
        {"XDG_CACHE_HOME": "/" + "x" * 5000, "LC_ALL": "C", "TESSELLA_DEBUG_PASSES": ",,"},
    ],
    ids=["no home", "no folder", "no name"],
)
def test_an_environment_of_nonsense(tmp_path: Path, changes: Environment) -> None:
    tmp_path.chmod(0o500)
    ran = python("-O", "-c", PROGRAM, cwd=tmp_path, changes=changes)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[0.0, 2.0]\n", "", 0)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name, value",
    [
        ("TESSELLA_TARGET", "x87"),
        ("TESSELLA_TARGET", "avx2\n"),
        ("TESSELLA_DEBUG_PASSES", "no-such-pass"),
        ("TESSELLA_DEBUG_PASSES", "fold-constants"),
        ("TESSELLA_THREADS", "many"),
        ("TESSELLA_WORKERS", "many"),
        ("TESSELLA_VERIFY", "yes"),
        ("TESSELLA_PLUGINS", "\udcff"),
        ("OMP_NUM_THREADS", "0"),
    ],
)
def test_a_variable_that_names_nothing(name: str, value: str) -> None:
    ran = python("-c", PROGRAM, changes={name: value})
    assert ran.returncode == 1
    assert "OptionError" in ran.stderr
    assert name in ran.stderr


LITTLE_SPACE = """
import resource, sys, numpy, tessella
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limit = used + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    tessella.jit(lambda x: x + 1)(numpy.ones(2))
except tessella.TessellaError as error:
    print(type(error).__name__, error.what)
"""


@pytest.mark.parametrize("megabytes", [10, 100])
def test_address_space_too_small_to_load_the_compiler(megabytes: int) -> None:
    """The address space is too small for the compiler's modules, or for LLVM's library."""
    ran = python("-c", LITTLE_SPACE, str(megabytes))
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert (
        ran.stdout == "ResourceError there is not enough memory to load tessella.frontends.trace\n"
    )


def test_address_space_too_small_to_compile() -> None:
    compile_all()
    with gigabytes(0.01), pytest.raises(ResourceError, match="not enough memory to compile"):
        tessella.compile(mixed(), options=tessella.Options(pick="grade"), dims="fixed")
    compile_all()


def test_output_that_cannot_be_written() -> None:
    """The output is a full disk, or closed."""
    command = [sys.executable, "-m", "tessella.tools.cli", "targets"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: the system refuses: No space left on device\n",
    )
    nowhere = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (nowhere.returncode, nowhere.stderr) == (0, "")


# ** figures that were measured **


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TESSELLA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tessella"


def figures() -> dict[str, int | float]:
    return {name: getattr(targets.native(), name) for name in measured.FIGURES}


def test_a_cache_that_is_a_link(cache: Path, tmp_path: Path) -> None:
    """The link leads to a folder, to itself, or to nothing."""
    (tmp_path / "elsewhere").mkdir()
    cache.symlink_to(tmp_path / "elsewhere")
    file = calibrate.store(targets.native(), figures())
    assert file.resolve().parent == tmp_path / "elsewhere"
    for other in (cache, tmp_path / "nothing"):
        cache.unlink()
        cache.symlink_to(other)
        assert measured.read(targets.native().name, machine.processor()) == {}
        with pytest.raises(OptionError, match="cannot write"):
            calibrate.store(targets.native(), figures())
    machine.forget()


def test_readers_never_see_half_a_file(cache: Path) -> None:
    """While others write."""
    this, wanted, seen, stop = targets.native(), figures(), set[str](), threading.Event()
    file = calibrate.store(this, wanted)
    program = (
        "from tessella import targets; from tessella.driver.tune import calibrate\n"
        f"for _ in range(80): calibrate.store(targets.native(), {wanted!r})"
    )
    writers = [threading.Thread(target=python, args=("-c", program)) for _ in range(2)]

    def read() -> None:
        while not stop.is_set():
            seen.add(file.read_text())

    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert [json.loads(text)["figures"] for text in seen] == [wanted]
    assert os.listdir(cache) == [file.name]
    machine.forget()


# ** disks **


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """The existing entries stay, and no partial file is left behind."""
    path = tmp_path / "m.nn"
    graph = OnnxSource(mixed()).graph({"x": (3, 5)})
    save_stage(path, graph.module, graph.weights)
    before = path.read_bytes(), weights_path(path).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
    try:
        with pytest.raises(OptionError, match="cannot write: File too large"):
            save_stage(path, graph.module, graph.weights)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (path.read_bytes(), weights_path(path).read_bytes()) == before
    assert sorted(os.listdir(tmp_path)) == ["m.nn", "m.weights"]


def test_threads_that_write_one_file(tmp_path: Path) -> None:
    path, failed = tmp_path / "m.nn", list[BaseException]()

    def write() -> None:
        try:
            for _ in range(10):
                graph = OnnxSource(mixed()).graph({"x": (3, 5)})
                save_stage(path, graph.module, graph.weights)
                load_stage(path)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    np.testing.assert_allclose(tessella.compile(path)(X), Y, rtol=1e-5)


# ** interruptions **


def compile_all() -> Model:
    tessella.jit(lambda x: tessella.softmax(x * 2, axis=0))(X)
    return tessella.compile(mixed())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of llvmlite
def test_interrupted_at_any_time() -> None:
    """An interrupt leaves everything usable."""
    compile_all()
    rng, counts, armed = np.random.default_rng(0), {"done": 0, "interrupted": 0}, [True]

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(20):
            try:
                armed[:] = [True]  # from here on, the last round's alarm may still come
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.2))
                compile_all()
                armed.clear()
                counts["done"] += 1
            except KeyboardInterrupt:
                counts["interrupted"] += 1
            assert gc.isenabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert counts["interrupted"] > 3
    np.testing.assert_allclose(compile_all()(X), Y, rtol=1e-5, atol=1e-6)


def test_a_progress_that_fails_leaves_nothing_behind() -> None:
    """It is called in the midst of a compilation."""

    def stop(_: str) -> None:
        raise TessellaError("enough")

    for _ in range(2):
        with pytest.raises(TessellaError, match="enough"):
            tessella.compile(mixed(), progress=stop)
    assert gc.isenabled()
    np.testing.assert_allclose(tessella.compile(mixed())(X), Y, rtol=1e-5, atol=1e-6)
