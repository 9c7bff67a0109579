"""All of PyTorch's samples of its ops: see `op_samples.py`.

`make test-op-info` runs this file; its name keeps it out of other runs, as it takes long.
`test_op_info.py` runs a part of the cases.
"""

from __future__ import annotations

import pytest

from tests.frontends.torch.op_samples import DIFFERENT, cases, errors, left


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", cases())
def test_case(case: str) -> None:
    assert not [*errors(case)]


def test_the_lists_name_cases() -> None:
    assert cases().keys() >= {*left(), *DIFFERENT}
