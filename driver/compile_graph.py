"""From a graph to a program for this machine, measuring kernels first on request."""

from __future__ import annotations

from tessella.dialects.graph import Graph
from tessella.driver.build import Built, build
from tessella.driver.compiling import Progress, quiet
from tessella.driver.options import CheckedOptions, check_machine
from tessella.driver.tune import tune


def compile_graph(graph: Graph, options: CheckedOptions, progress: Progress = quiet) -> Built:
    """The program of a graph on this machine. The graph's weights are used up."""
    check_machine(options)
    if options.pick == "measure" and graph.stage == "nn":
        copy = Graph(graph.module.clone(), graph.weights.copy())
        tune(copy, options, options.budget, progress)
    return build(graph, options, progress)
