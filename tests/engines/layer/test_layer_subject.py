"""What layers share in all frameworks, with a layer of the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import SECOND
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.subject import Call, Layout, Output, SubjectRequest
from tests.rows import SPAN

X = np.array([1.0, -2.0, 3.0])
W = np.array([0.5, 4.0, -1.0])
ROW = np.array([1.0, 2.0, -1.0, 1.0, 1.0, 1.0])  # of two outputs


class Product(LayerSubject):
    """`cube` is x^3 w and `twice` is 2 w; the layer holds w."""

    def __init__(self, fw: Any, request: SubjectRequest) -> None:
        super().__init__(request)
        self.fw = fw
        self.calls = 0
        self.refuses = False
        self.used: list[Any] = []
        self.at: Mapping[str, Array] = {}
        self.bind_leaves([Leaf("x", "input", X, True), Leaf("w", "parameter", W, True)])
        with self.ready({}):
            self.outputs = self.described(self.call(self.inputs({})))

    @contextmanager
    def ready(self, values: Mapping[str, Array]) -> Any:
        before, self.at = self.at, values
        try:
            yield
        finally:
            self.at = before

    def inputs(
        self, values: Mapping[str, Array], wrt: Sequence[str] = (), layout: Layout = "contiguous"
    ) -> dict[str, Any]:
        return {"x": values.get("x", X), "w": self.at.get("w", W)}

    def call(self, inputs: Mapping[str, Any]) -> list[Any]:
        self.calls += 1
        x, w = inputs["x"], inputs["w"]
        self.output_names = ["cube", "twice"]
        return [x * x * x * w, 2 * w]

    def cotangent(self, part: Array, output: Output, layout: Layout) -> Any:
        return part

    def pass_back(self, vjp: Any, cotangents: Sequence[Any], keep: bool) -> list[Any]:
        if self.refuses and vjp in self.used:
            raise RuntimeError("one backward a forward")
        self.used.append(vjp)
        return super().pass_back(vjp, cotangents, keep)

    def learns(self, error: Exception, first: bool, call: Call) -> bool:
        self.runs_once = not first
        return not first

    def record(self, row: Array) -> Any:
        raise NotImplementedError

    def casts(self) -> Any:
        raise NotImplementedError

    def functions(self, row: Any = None) -> Any:
        raise NotImplementedError


@pytest.fixture
def layer(engine_called: Callable[[str], Engine]) -> Product:
    fw = engine_called("reference").framework("float64")  # type: ignore[attr-defined]
    request = SubjectRequest(
        Implementation("reference", "layer", "", SPAN),
        {"x": X},
        "float64",
        "float64",
        domains={"x": (-2.5, 9.0)},
    )
    return Product(fw, request)


def test_outputs_follow_each_other(layer: Product) -> None:
    assert [(one.name, one.shape, one.start) for one in layer.outputs] == [
        ("cube", (3,), 0),
        ("twice", (3,), 3),
    ]
    np.testing.assert_array_equal(layer.value({"w": X}), [*X**4, *2 * X])
    np.testing.assert_array_equal(layer.several([{}, {"x": W}])[1], [*W**4, *2 * W])


def test_gradients_are_those_of_all_rows(layer: Product) -> None:
    found = layer.run(Call(cotangents=np.stack([ROW, 2 * ROW])))
    np.testing.assert_array_equal(found.gradients["x"], np.outer([1, 2], 3 * X**2 * W * ROW[:3]))
    np.testing.assert_array_equal(found.row(0)["w"], X**3 * ROW[:3] + 2)
    assert found.dtypes == {"x": "float64", "w": "float64"}
    assert layer.run(Call(cotangents=ROW[None], tracking=False)).gradients == {"x": None, "w": None}


def test_an_output_that_is_not_used_has_no_cotangent(layer: Product) -> None:
    found = layer.run(Call(cotangents=ROW[None], used_outputs=("twice",))).row(0)
    assert found["x"] is None
    np.testing.assert_array_equal(found["w"], [2, 2, 2])


def test_a_layer_that_frees_its_graph_runs_again_for_every_row(layer: Product) -> None:
    layer.refuses = True
    rows = np.stack([ROW, 2 * ROW, 3 * ROW])
    found = layer.run(Call(cotangents=rows)).gradients["x"]
    np.testing.assert_array_equal(found, np.outer([1, 2, 3], 3 * X**2 * W * ROW[:3]))
    assert layer.runs_once
    before = layer.calls
    layer.run(Call(cotangents=rows))
    assert layer.calls == before + 3


def test_second_derivatives_agree_by_every_composition(layer: Product) -> None:
    for mode in SECOND[:3]:
        found = layer.hvp(mode, ROW, {"x": W})
        np.testing.assert_allclose(found["x"], 6 * X * W * ROW[:3] * W, rtol=1e-15)
        np.testing.assert_allclose(found["w"], 3 * X**2 * ROW[:3] * W, rtol=1e-15)
    second = layer.second_tangent(ROW, {"w": X}, {"x": W})
    np.testing.assert_allclose(second, np.sum(3 * X**3 * ROW[:3] * W), rtol=1e-15)
    np.testing.assert_allclose(layer.jvp({"w": X}), [*X**4, *2 * X], rtol=1e-15)


def test_only_what_is_requested_is_differentiated(layer: Product) -> None:
    layer.differentiate(["w"])
    assert list(layer.run(Call(cotangents=ROW[None])).gradients) == ["w"]
    layer.differentiate(["x", "w"])
    assert layer.wrt == ("x", "w")


def test_a_domain_has_the_numbers_of_its_own_leaf(layer: Product) -> None:
    """They were rounded, and may lie just outside."""
    assert [(leaf.low, leaf.high) for leaf in layer.leaves] == [(-2.5, 9.0), (-np.inf, np.inf)]
    request = SubjectRequest(layer.request.implementation, {"x": X}, "float64", "float64")
    narrow = Product(layer.fw, replace(request, domains={"x": (-1.0, 2.0)}))
    assert (narrow.leaves[0].low, narrow.leaves[0].high) == (-2.0, 3.0)
