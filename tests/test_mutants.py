"""`tests.mutants` changes what it says, and its probes change nothing."""

from __future__ import annotations

from tests.mutants import mutants, probed

SOURCE = """
LIMIT = 3

def clamp(x: int, low: int = 0) -> int:
    if x < low or x is None:
        raise ValueError(f"{x + 1}")
    seen = []
    seen.append(x - 1)
    return seen[0] if seen else LIMIT
"""


def test_every_kind_of_change() -> None:
    changes = [f"{one.before} -> {one.after}" for one in mutants("clamp.py", SOURCE)]
    assert changes == [
        "x < low or x is None -> (not (x < low or x is None))",
        "x < low or x is None -> (x < low and x is None)",
        "x < low -> (x <= low)",
        "x is None -> (x is not None)",
        "raise ValueError(f'{x + 1}') -> pass",
        "seen.append(x - 1) -> pass",
        "x - 1 -> (x + 1)",
        "1 -> (2)",
        "seen -> (not seen)",
        "0 -> (1)",
    ]
    source = SOURCE.encode()
    for one in mutants("clamp.py", SOURCE):
        assert one.apply(source) != source
        compile(one.apply(source), one.path, "exec")


def test_probes_change_nothing() -> None:
    source = probed(SOURCE.encode(), dict(enumerate(mutants("clamp.py", SOURCE))))
    defined: dict[str, object] = {}
    places: list[int] = []
    noted = source.decode().replace(
        '__import__("tessella.support.probe", fromlist=["probe"])', "probe"
    )
    exec(noted, {"probe": type("", (), {"come_to": places.append})}, defined)
    clamp = defined["clamp"]
    assert callable(clamp)
    assert clamp(5) == 4
    assert sorted(places) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
