"""The tests of this folder need PyTorch: without it, they are not collected.

PyTorch computes on one core, as tests run side by side.
"""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []

if find_spec("torch"):
    import torch

    torch.set_num_threads(1)
else:
    collect_ignore_glob = ["test_*.py"]
