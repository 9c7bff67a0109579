"""Times of other runtimes: of calls, and of each node where a runtime tells it."""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tessella.driver.report.data import OtherRuntime
from tessella.support.errors import OptionError
from tessella.support.versions import installed
from tessella.tools.measure import interleave
from tessella.tools.peers import Feeds, load

REPEAT, TURN = 20, 0.02
"""The number of timed turns, and the seconds of calls in each."""
RUNS = 20
"""The number of runs whose nodes are timed."""
_SUFFIX = "_kernel_time"
"""The end of the names of ONNX Runtime's events for nodes."""
_BLOCKED = "_nchwc"
"""The end of the names of ONNX Runtime's nodes in its blocked layout, after the name of the value
that the node computes."""


def other_runtime(name: str, path: Path, feeds: Feeds, threads: int) -> OtherRuntime:
    """Measure an ONNX file on another runtime. Raises OptionError if the runtime cannot run it."""
    try:
        times = interleave(
            {name: partial(load(name, path, threads), feeds)}, repeat=REPEAT, turn=TURN
        )
        tell = NODES.get(name)
        nodes = {} if tell is None else tell(path, feeds, threads)
    except OptionError:
        raise
    except Exception as error:  # another runtime may raise anything
        raise OptionError(
            f"{name} cannot run the model: {type(error).__name__}: {error}", where="--against"
        ) from error
    return OtherRuntime(name, installed(name), times[name].median, nodes)


def onnxruntime_nodes(path: Path, feeds: Feeds, threads: int) -> dict[str, float]:
    """Return the seconds that ONNX Runtime takes for each node of the model in a run.

    Its optimised graph tells which nodes of the model it runs: an optimised node computes a value
    that a node of the model computes, or has that node's name before the name of a fusion.
    """
    ort: Any = importlib.import_module("onnxruntime")
    onnx: Any = importlib.import_module("onnx")
    with TemporaryDirectory() as folder:
        optimised = Path(folder) / "optimised.onnx"
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        options.optimized_model_filepath = str(optimised)
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for _ in range(RUNS + 1):
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text())
        graph = onnx.load(str(optimised), load_external_data=False).graph
        made = {node.name: list(node.output) for node in graph.node}
    return by_node(_seconds(events), made, _makers(path))


def _seconds(events: list[dict[str, Any]]) -> Mapping[str, float]:
    """Return the median seconds of each of ONNX Runtime's nodes; the first run does not count."""
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith(_SUFFIX):
            found[name.removesuffix(_SUFFIX)].append(event["dur"] * 1e-6)
    return {name: median(times[1:] or times) for name, times in found.items()}


def _makers(path: Path) -> Mapping[str, str]:
    """Return the node of the model that computes each value."""
    load: Any = importlib.import_module("tessella.frontends.onnx.load")
    graph = load.open_model(path).graph
    return {value: node.name for node in graph.nodes for value in node.outputs if value}


def by_node(
    seconds: Mapping[str, float], made: Mapping[str, list[str]], makers: Mapping[str, str]
) -> dict[str, float]:
    """Return the seconds of each node of the model.

    ``seconds`` are those of the nodes of ONNX Runtime's optimised graph by name, ``made`` the
    values that each of these nodes computes, and ``makers`` the model's node for each value.
    """
    known = set(makers.values())
    found: dict[str, float] = defaultdict(float)
    for name, each in seconds.items():
        values = (name.removesuffix(_BLOCKED), *made.get(name, ()))
        nodes = [*(makers[value] for value in values if value in makers), *_fused(name, known)]
        if nodes:
            found[nodes[0]] += each
    return dict(found)


def _fused(name: str, known: Collection[str]) -> Iterator[str]:
    """Yield the node of the model after which a fusion named its node: `node/MatMulAddFusion`."""
    while name and name not in known:
        name = name.rpartition("/")[0]
    if name:
        yield name


NODES: dict[str, Callable[[Path, Feeds, int], dict[str, float]]] = {
    "onnxruntime": onnxruntime_nodes
}
"""The functions that return the seconds of each node, for the runtimes that tell them."""
