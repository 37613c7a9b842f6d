"""Graphs of formulas and of layers, with the numbers of the reference engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.graph import Numbers, graphs_of

Read = Callable[[str], Spec]
FORMULA = "name: f\ninputs: {x: [1, 2], n: {value: [3, 4], dtype: int64}}\nmodel: x * x * 3"
LAYER = """
name: pair
inputs: {x: [0.5, 2.0]}
implementations:
  torch: {target: 'torch:sinh'}
"""


def test_a_formula_without_numbers(spec: Read) -> None:
    (graph,) = graphs_of(spec(FORMULA)).values()
    assert (graph.engine, dict(graph.values)) == ("", {})


def test_cotangents_are_those_of_the_sum_of_the_output(spec: Read) -> None:
    found = graphs_of(spec(FORMULA), Numbers())
    assert list(found) == ["f"]
    graph, nodes = found["f"], found["f"].program.nodes
    x = graph.program.inputs["x"]
    np.testing.assert_array_equal(graph.values[x], [1, 2])
    np.testing.assert_array_equal(graph.derivatives[x], [6, 12])
    np.testing.assert_array_equal(graph.values[graph.program.output], [3, 12])
    np.testing.assert_array_equal(graph.derivatives[graph.program.output], [1, 1])
    assert {nodes[i].op for i in graph.values} == {node.op for node in nodes}


def test_tangents_and_another_dtype(spec: Read) -> None:
    (graph,) = graphs_of(spec(FORMULA), Numbers("float16", "forward")).values()
    np.testing.assert_array_equal(graph.derivatives[graph.program.output], [6, 0])
    (rounded,) = graphs_of(spec("inputs: {x: 0.1}\nmodel: sin(x)"), Numbers("float16")).values()
    assert float(rounded.values[0]) == float(np.float16(0.1))


def test_a_layer_is_lifted(spec: Read) -> None:
    (graph,) = graphs_of(spec(LAYER), Numbers()).values()
    assert "sinh" in [node.op for node in graph.program.nodes]
    np.testing.assert_allclose(graph.derivatives[graph.program.inputs["x"]], np.cosh([0.5, 2]))
