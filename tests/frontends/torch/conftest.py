"""The tests of this folder need PyTorch: without it, they are not collected. Tests run side by side,
and each takes one core."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []

if find_spec("torch"):
    import torch

    torch.set_num_threads(1)
else:
    collect_ignore_glob = ["test_*.py"]
