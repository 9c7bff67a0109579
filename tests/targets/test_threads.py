"""The number of threads: the environment, the cores of this process, the quota of a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tessella.support.errors import OptionError
from tessella.targets import threads


def files(root: Path, **texts: str) -> Path:
    """A folder with these files; `__` in a name is a slash."""
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1_MOUNT = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    "text, want",
    [("50000 100000", 1), ("150000 100000", 2), ("400000 100000", 4), ("max 100000", 1024)],
)
def test_quota_of_a_container(tmp_path: Path, text: str, want: int) -> None:
    """A namespace makes the container's group the root; v2."""
    root = files(
        tmp_path,
        proc__self__cgroup="0::/\n",
        proc__self__mountinfo=V2_MOUNT,
        sys__fs__cgroup__cpuDOTmax=text + "\n",
    )
    assert threads.quota(root) == want


def test_the_strictest_group_counts(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        proc__self__cgroup="0::/user.slice/mine/inner\n",
        proc__self__mountinfo=V2_MOUNT,
        **{
            "sys/fs/cgroup/user.slice/cpu.max": "300000 100000",
            "sys/fs/cgroup/user.slice/mine/cpu.max": "max 100000",
            "sys/fs/cgroup/user.slice/mine/inner/cpu.max": "600000 100000",
            "sys/fs/cgroup/other/cpu.max": "100000 100000",
        },
    )
    assert threads.quota(root) == 3


@pytest.mark.parametrize("mounted", ["/", "/docker/abc"])
def test_quota_of_version_1(tmp_path: Path, mounted: str) -> None:
    """In a container without a namespace, the group has the name that it has outside."""
    folder = "sys/fs/cgroup/cpu,cpuacct" + ("/docker/abc" if mounted == "/" else "")
    root = files(
        tmp_path,
        proc__self__cgroup="5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n",
        proc__self__mountinfo=V1_MOUNT.format(root=mounted) + V2_MOUNT.replace("cgroup rw", "x rw"),
        **{f"{folder}/cpu.cfs_quota_us": "250000\n", f"{folder}/cpu.cfs_period_us": "100000\n"},
    )
    assert threads.quota(root) == 3


@pytest.mark.parametrize("text", ["", "-1 100000", "x y", "100000 0", "1", "max"])
def test_no_quota(tmp_path: Path, text: str) -> None:
    root = files(
        tmp_path,
        proc__self__cgroup="0::/\nnonsense\n",
        proc__self__mountinfo="nonsense\n" + V2_MOUNT,
        sys__fs__cgroup__cpuDOTmax=text,
    )
    assert threads.quota(root) == threads.MOST
    assert threads.quota(tmp_path / "nothing") == threads.MOST


def test_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "quota", lambda: 3)
    monkeypatch.setattr(threads, "cores", lambda: 5)
    assert threads.default() == 3
    monkeypatch.setattr(threads, "quota", lambda: 1024)
    assert threads.default() == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "7,2")
    assert threads.default() == 7
    monkeypatch.setenv("TESSELLA_THREADS", " 9 ")
    assert threads.default() == 9
    monkeypatch.setenv("TESSELLA_THREADS", "")
    assert threads.default() == 7


@pytest.mark.parametrize("name", threads.VARIABLES)
@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5", "1025", "9" * 30, "²"])
def test_wrong_numbers(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    for other in threads.VARIABLES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, text)
    with pytest.raises(OptionError, match=name):
        threads.default()


def test_cores_are_those_of_the_process() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert threads.cores() == 1
    finally:
        os.sched_setaffinity(0, before)
