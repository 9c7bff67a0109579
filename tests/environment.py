"""Environment variables of the tests, and of the processes that they start. Import it before
tessella, which reads them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_IN_A_RUN = "TESSELLA_TEST_RUN" in os.environ

RUN = Path(os.environ["TESSELLA_TEST_RUN"] if _IN_A_RUN else tempfile.mkdtemp(prefix="tessella-"))
"""A folder of this run, shared by all processes that run tests."""

if not _IN_A_RUN:
    atexit.register(shutil.rmtree, RUN, ignore_errors=True)
    os.environ["TESSELLA_TEST_RUN"] = str(RUN)

# The IR is verified after every pass.
os.environ.setdefault("TESSELLA_VERIFY", "1")

# What was measured on this machine, and stored, is no part of what is tested.
os.environ["XDG_CACHE_HOME"] = str(RUN)

# Everything is compiled anew, except where a test says otherwise; see also shared_kernels.
os.environ["TESSELLA_CACHE"] = "off"

# Tests run side by side: each takes one core. Threads of NumPy would wait for those of others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What runs on how many threads does not depend on what else the machine does.
os.environ.setdefault("TESSELLA_ELASTIC", "0")

# A pass that crashes on purpose leaves nothing behind.
os.environ["TESSELLA_CRASH_DIR"] = "off"

# Tests start many processes, and each would compile the same sources.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
