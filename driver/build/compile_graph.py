"""From a graph to a program for this machine, measuring kernels first on request."""

from __future__ import annotations

from tessella.dialects.graph import Graph
from tessella.driver.build.build import Built, build
from tessella.driver.build.compiling import Progress, quiet
from tessella.driver.options import CheckedOptions, check_machine
from tessella.driver.tune.tune import tune


def compile_graph(graph: Graph, options: CheckedOptions, progress: Progress = quiet) -> Built:
    """Build the program of a graph for this machine, after measuring kernels if ``options.pick`` is
    ``measure``. The graph's weights are consumed."""
    check_machine(options)
    if options.pick == "measure" and graph.stage == "nn":
        copy = Graph(graph.module.clone(), graph.weights.copy())
        tune(copy, options, options.budget, progress)
    return build(graph, options, progress)
