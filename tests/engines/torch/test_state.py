"""What a layer's module switches for all of PyTorch does not outlast its import."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli import check
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from gradcheck_cli.engines.torch import state as torch_state
from gradcheck_cli.engines.torch.layer import TorchSubject
from gradcheck_cli.engines.torch.state import WORTH_A_THREAD
from tests.checks.making import examined
from tests.every import first

LAYER = """
import torch

torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
torch.autograd.set_detect_anomaly(True)
torch.set_float32_matmul_precision("medium")
torch.backends.cudnn.allow_tf32 = False


def layer(x):
    return torch.sqrt(x)
"""


def test_switches_of_a_module_are_put_back(tmp_path: Path) -> None:
    """Anomaly detection would make an exception of a nan, in this layer and in the specs after."""
    products = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    (tmp_path / "layers.py").write_text(LAYER, "utf-8")
    target = Implementation("torch", "layers.py:layer", str(tmp_path), Span(1, 1, 1, 2))
    x = np.array([-1.0, 4.0])
    layer = TorchSubject(SubjectRequest(target, {"x": x}, "float32", "float32"))
    np.testing.assert_array_equal(
        layer.run(Call(cotangents=np.eye(2))).gradients["x"], [[np.nan, 0.0], [np.nan, 0.25]]
    )
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert not torch.is_anomaly_enabled()
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == products


@pytest.mark.parametrize("tracking", [False, True])
def test_the_copy_of_a_module_is_gone_as_soon_as_its_subject_is_closed(tracking: bool) -> None:
    """As it may be large: the next copy may be in need of its memory before a collection."""
    copies = []

    class Layer(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            copies.append(weakref.ref(self))
            return super().forward(x)

    target = Implementation("torch", "layer", "", Span(1, 1, 1, 2), live=Layer(2, 2))
    layer = TorchSubject(SubjectRequest(target, {"x": np.ones((1, 2))}, "float64", "float32"))
    layer.run(Call(cotangents=np.eye(2), tracking=tracking))
    gc.disable()
    try:
        layer.close()
        assert [copy() for copy in copies] == [None] * len(copies)
    finally:
        gc.enable()


def test_a_small_layer_runs_in_one_thread() -> None:
    before, seen = torch.get_num_threads(), set()

    def watched(x: torch.Tensor) -> torch.Tensor:
        seen.add((x.numel(), torch.get_num_threads()))
        return x.sum()

    torch.set_num_threads(2)
    try:
        for entries in (2, WORTH_A_THREAD):
            live = Implementation("torch", "watched", "", Span(1, 1, 1, 2), live=watched)
            values = {"x": np.ones(entries)}
            layer = TorchSubject(SubjectRequest(live, values, "float32", "float32"))
            layer.value({})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert {(2, 1), (WORTH_A_THREAD, 2)} <= seen


def test_the_columns_of_forward_mode_have_the_same_random_numbers() -> None:
    def drops(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x * x, 0.5, training=True)

    target = Implementation("torch", "drops", "", Span(1, 1, 1, 2), live=drops)
    layer = TorchSubject(SubjectRequest(target, {"x": np.arange(1.0, 9.0)}, "float64", "float64"))
    columns = np.stack(layer.jvps([{"x": column} for column in np.eye(8)]), axis=1)
    rows = layer.run(Call(cotangents=np.eye(8))).gradients["x"]
    assert 0 < np.count_nonzero(columns) < 8
    np.testing.assert_array_equal(columns, rows)


class Keeps(torch.nn.Module):
    """Keeps what it computed last."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, -1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * self.weight
        return self.last.sin()


class Adds(Keeps):
    """Keeps what it computed first, and adds it to everything later."""

    last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * self.weight if self.last is None else self.last
        return (x * self.weight).sin() + self.last


def _normed() -> torch.nn.Module:
    with warnings.catch_warnings(action="ignore"):  # it is deprecated
        return torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("make", "left", "codes"),
    [(Keeps, "last", set()), (_normed, "weight", set()), (Adds, "last", {"GC203"})],
)
def test_a_graph_of_an_earlier_call_is_in_no_check(
    make: Callable[[], torch.nn.Module], left: str, codes: set[str]
) -> None:
    module = make()
    module(torch.ones(2))
    answer = examined(module, {"x": [0.3, -1.2]})
    assert answer.failure is None
    assert {finding.code for finding in answer.findings} == codes
    assert f"an earlier call left `{left}` with its graph: nan in the copy" in answer.notes


def test_what_cannot_be_copied_is_shared_and_named() -> None:
    class Locked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0, -1.0]))
            self.lock = threading.Lock()
            self.sine = staticmethod(torch.sin)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with self.lock:
                return self.sine(x * self.weight)

    answer = examined(torch.nn.Sequential(Locked()), {"x": [0.3, -1.2]})
    assert answer.failure is None
    assert not answer.findings
    assert "cannot be copied: `0.lock`, `0.sine`" in " ".join(answer.notes)


class Cached(torch.nn.Module):
    """Keeps its frequencies in a buffer, and in an attribute how many of them are there."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(8), persistent=False)
        self.filled = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = len(x)
        if self.filled < size:
            self.kept[:size] = torch.arange(1.0, size + 1)
            self.filled = size
        return x / self.kept[:size]


def test_a_cache_in_a_buffer_is_empty_at_every_call_or_full_at_every_call() -> None:
    answer = examined(Cached(), {"x": [0.5, -1.0, 2.0]})
    assert not answer.findings


class AsksLater(nn.Module):
    """A buffer that asks for gradients as soon as a call has begun, as losses of quantisers do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.tensor(0.0))

    def forward(self, x: Any) -> Any:
        loss = self.zero if self.zero.requires_grad else self.zero.requires_grad_()
        return loss + x.float().sum()


def test_what_asks_for_gradients_is_the_same_at_every_call() -> None:
    """The float64 layer of a function is made after calls of the float32 one, and casts: a buffer
    that asked for gradients from then on was a leaf of one of them alone (GC706)."""
    module = AsksLater()
    answer = examined(lambda x: module(x), {"x": [0.3, 0.4]})
    assert not answer.findings
    assert not module.zero.requires_grad


class Tied(nn.Module):
    """Of which one parameter is written to, and two have their numbers in common."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.written = nn.Linear(3, 4), nn.Parameter(torch.ones(4))
        self.one, self.other = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.other.data = self.one.data

    def forward(self, x: Any) -> Any:
        y = torch.tanh(self.first(x)) * self.one * self.other + self.written
        with torch.no_grad():
            self.written += 1.0
        return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_parameters_are_made_anew_by_every_call(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """Between calls no copy of them stays; calls are as those of a small module."""
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32).astype(np.float64)
    module = Tied()
    before = {name: one.clone() for name, one in module.state_dict().items()}
    target = Implementation("torch", "tied", "", Span(1, 1, 1, 2), live=module)

    def bound() -> TorchSubject:
        return TorchSubject(SubjectRequest(target, {"x": x}, dtype, "float32"))

    small = bound()
    monkeypatch.setattr(torch_state, "LARGE", 1)
    monkeypatch.setattr(torch_state, "MANY", 1)
    large = bound()

    def kept() -> set[str]:
        return {name for name, one in large.state.tensors().items() if one.numel()}

    assert kept() == {"one", "other"}
    rows, moved = np.eye(8), {"first.weight": np.full((4, 3), 0.25)}
    calls = (
        Call(cotangents=rows),
        Call(cotangents=rows, interleaved_inputs={"x": 2 * x}, retained=True),
        Call(cotangents=rows, values=moved, wrt=("first.bias", "written"), watch=True),
        Call(cotangents=rows, earlier_inputs={"x": 2 * x}, watch=True),
    )
    for call in (*calls, calls[0]):
        ran, same = large.run(call), small.run(call)
        np.testing.assert_array_equal(ran.output, same.output)
        assert ran.changed == same.changed
        assert ran.gradients.keys() == same.gradients.keys()
        for name, gradient in same.gradients.items():
            np.testing.assert_array_equal(ran.gradients[name], gradient)
        assert kept() == {"one", "other"}
    tangents = {"first.weight": np.ones((4, 3)), "x": np.ones((2, 3))}
    np.testing.assert_array_equal(large.jvp(tangents), small.jvp(tangents))
    np.testing.assert_array_equal(large.several([moved, {}]), small.several([moved, {}]))
    for name, one in module.state_dict().items():
        assert torch.equal(one, before[name])


@pytest.mark.parametrize(
    ("module", "dtypes"),
    [
        (lambda: torch.jit.script(nn.Linear(6, 3)), {"float32", "float64"}),
        (
            lambda: torch.jit.script(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Tanh())),
            {"float32", "float64"},
        ),
        (
            lambda: torch.jit.trace(nn.Sequential(nn.Linear(6, 3), nn.Sigmoid()), torch.ones(2, 6)),
            {"float32", "float64"},
        ),
        (lambda: torch.jit.freeze(torch.jit.script(nn.Linear(6, 3).eval())), {"float32"}),
    ],
    ids=["script", "with buffers", "trace", "frozen"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_of_torch_script_are_right_in_every_dtype(
    module: Callable[[], Any], dtypes: set[str]
) -> None:
    """A copy of one has parameters that lead back to the user's, in the user's dtype. A frozen one
    has no training mode, and constants of one dtype."""
    torch.manual_seed(0)
    layer = module()
    report = check(layer, torch.randn(4, 6), modes="reverse")
    assert report.passed, report
    checks = [one for result in report.results for one in result.checks]
    assert {one.dtype for one in checks} == dtypes
    assert all(parameter.grad is None for parameter in layer.parameters())


def mixed(x: Any, adjacency: Any) -> Any:
    return torch.sparse.mm(adjacency, x)


@pytest.mark.parametrize("layout", first(1, [torch.sparse_csr, torch.sparse_coo]))
@pytest.mark.parametrize("held", first(2, ["given", "buffer", "captured"]))
def test_a_layer_may_use_a_sparse_tensor_that_is_not_differentiated(held: str, layout: Any) -> None:
    dense = torch.tensor([[0.0, 2.0], [1.0, 0.0]], dtype=torch.float64)
    adjacency, dense = dense.to_sparse(layout=layout), dense.clone()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", adjacency)

        def forward(self, x: Any) -> Any:
            return mixed(x, self.adjacency)

    layer = {"captured": lambda x: mixed(x, adjacency), "buffer": Net(), "given": mixed}[held]
    x = torch.tensor([[0.5, 1.0], [2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    given = [x, adjacency] if held == "given" else [x]
    assert check(layer, *given).passed
    assert adjacency.dtype == torch.float64
    assert torch.equal(adjacency.to_dense(), dense)

    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, y_bar: Any) -> Any:
            return y_bar / 2

    report = check(lambda x, *rest: layer(Halved.apply(x), *rest), *given)
    assert {finding.code for finding in report.findings} == {"GC101"}


class Sparse(torch.nn.Module):
    """A module whose only parameter is sparse."""

    def __init__(self, layout: Any, trained: bool) -> None:
        super().__init__()
        weight = torch.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse(layout=layout)
        self.weight = torch.nn.Parameter(weight, requires_grad=trained)

    def forward(self, x: Any) -> Any:
        return mixed(x, self.weight)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_tensor_that_asks_for_gradients_is_refused(layout: Any) -> None:
    weight = torch.eye(2).to_sparse(layout=layout).requires_grad_()
    for layer, name in (
        (lambda x: mixed(x, weight), "`weight`, which the layer captured,"),
        (Sparse(layout, True), "the parameter `weight`"),
    ):
        (finding,) = check(layer, torch.ones(2, 2), dtypes="float32").findings
        assert finding.code == "GC705"
        assert finding.message == (
            f"{name} is sparse: not differentiated; with `requires_grad_(False)` it is a constant, "
            "and the others are checked"
        )


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_parameter_that_is_not_trained_is_a_constant(layout: Any) -> None:
    layer = Sparse(layout, False)
    report = check(layer, torch.tensor([[0.5, 1.0], [2.0, -1.0]]), modes="reverse")
    assert report.passed, report
    assert {one.input for result in report.results for one in result.checks} == {"x"}
    assert torch.equal(layer.weight.to_dense(), torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
