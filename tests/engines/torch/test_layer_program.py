"""Programs of layers that hold for all inputs; and layers of which none is given, each for what it
does besides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.layer.subject import SubjectRequest
from gradcheck_cli.engines.torch.layer import TorchSubject
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.faithful import unfaithful

START = np.array([1.0, 2.0, 0.5])
CORNERS = [{"x": np.full(3, -5.0)}, {"x": np.full(3, 5.0)}]
"""A layer of this file that does otherwise, does so at 1.2345 < x[0] < 1.2346 alone."""


@contextmanager
def bound(function: Any, dtype: str) -> Iterator[TorchSubject]:
    implementation = Implementation("torch", "layer", "", Span(1, 1, 1, 2), live=function)
    subject = TorchSubject(SubjectRequest(implementation, {"x": START}, dtype, "float32"))
    try:
        yield subject
    finally:
        subject.close()


def program_of(function: Any) -> GradientProgram:
    with bound(function, "float64") as wide, bound(function, "float32") as narrow:
        return wide.gradient_program(narrow, ["x"], CORNERS)


def test_a_program_has_the_value_and_the_gradient_with_parameters_and_constants() -> None:
    weights = torch.tensor([1.0, 2.0, 3.0])
    layer = torch.nn.Linear(3, 2)

    def function(x: Any) -> Any:
        return (torch.softmax(layer(x), -1)).sum() + (weights * torch.tanh(x)).mean()

    found = program_of(function)
    assert not found.reason
    assert found.program is not None
    assert len(found.program.outputs) == 4  # value, and gradients by x, weight and bias
    assert {"x", "layer_weight", "layer_bias"} <= found.program.inputs.keys()


F = torch.nn.functional
weight = torch.tensor([[0.5, -1.5, 2.0], [0.25, 1.0, -0.75]])
bias = torch.tensor([0.1, -300.0])
shift = torch.tensor([0.5, -1.0, 2.0])

KERNELS = {
    "addmm": lambda x: F.linear(x[None], weight, bias).sum(),
    "native_layer_norm": lambda x: (F.layer_norm(x + 100, (3,), shift, shift) * shift).sum(),
    "nll_loss_forward": lambda x: F.cross_entropy(x, torch.tensor(1)),
    "nll_loss_backward": lambda x: F.cross_entropy(x.repeat(2, 1) * shift, torch.tensor([2, 0])),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), shift.sigmoid()),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_layer_computes_elsewhere_is_within_the_bounds_of_its_program(kernel: str) -> None:
    found = program_of(KERNELS[kernel])
    assert found.program is not None, found.reason
    assert not unfaithful(found.program, "torch")
    fmt = FORMATS["float32"]
    rounding = Rounding.of(fmt, loose=False)
    constants = {"shift": shift.numpy(), "weight": weight.numpy(), "bias": bias.numpy()}
    program = BoxProgram(found.program, {**constants, **found.constants}, fmt, rounding)
    points = np.random.default_rng(0).uniform(-3, 3, (64, 3)).astype(np.float32)
    boxes = {"x": points.astype(np.float64)}
    value, gradient, *_ = program(boxes, boxes, len(points))
    for index, point in enumerate(points):
        x = torch.tensor(point, requires_grad=True)
        y = KERNELS[kernel](x)
        (slope,) = torch.autograd.grad(y, x)
        for bound, computed in ((value, y), (gradient, slope)):
            assert bound is not None
            there = bound.map(lambda part, at=index: part[at])
            assert not there.bad.any()
            apart = np.abs(computed.detach().double().numpy() - (there.lo + there.hi) / 2)
            assert np.all(apart <= (there.hi - there.lo) / 2 * (1 + 1e-9) + there.error)


def _sums(x: Any, copy: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The same numbers, added in two orders if the copy has another layout."""
    table = (x + torch.arange(3.0).unsqueeze(1)).t()
    return table.sum(), copy(table).sum()


TWICE = {
    "layouts": lambda x: _sums(x, lambda table: table.contiguous()),
    "casts": lambda x: _sums(
        x, lambda table: table.to(copy=True, memory_format=torch.preserve_format)
    ),
    "repeated": lambda x: _sums(x, lambda table: table.repeat(1, 1)),
    "kernels": lambda x: (torch.sub(x, 1.0), torch.rsub(torch.ones(3, dtype=x.dtype), x)),
}


@pytest.mark.parametrize("pair", [*TWICE, "one kernel"])
def test_equal_numbers_have_the_same_digits_if_one_kernel_gives_them(pair: str) -> None:
    """The product of numbers near 0 that are rounded differently may be below 0, and its root nan;
    a comparison of them may say that they differ."""

    def root(x: Any) -> Any:
        one, other = TWICE.get(pair, lambda x: (x.log(), x.log()))(x)
        return torch.sqrt(one * other).sum()

    found = program_of(root)
    assert found.program is not None, found.reason
    fmt = FORMATS["float32"]
    program = BoxProgram(found.program, found.constants, fmt, Rounding.of(fmt, loose=False))
    low, high = ({"x": np.full((1, 3), end)} for end in ((0.5, 2.0) if "one" in pair else (-2, 2)))
    value, *_ = program(low, high, 1)
    assert value is not None
    assert bool(value.bad.any()) == (pair != "one kernel")


class Stated(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        return upstream * 2


def _here(number: float) -> bool:
    return 1.2345 < number < 1.2346


def _chosen(read: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A layer that chooses by a number that it reads somehow, and goes on where it cannot."""

    def layer(x: Any) -> Any:
        number = 0.0
        with suppress(Exception):
            number = read(x)
        return x.sum() * (2.0 if _here(number) else 1.0)

    return layer


def _in_a_thread(x: Any) -> float:
    found: list[float] = []

    def read() -> None:
        with suppress(Exception):
            found.append(float(x[0]))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return found[0] if found else 0.0


def _by_apply(x: Any) -> float:
    found: list[float] = []

    def noted(number: float) -> float:
        found.append(number)
        return number

    x.data.apply_(noted)
    return found[0]


READERS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "numpy": lambda x: x.detach().numpy()[0],
    "tolist": lambda x: x.tolist()[0],
    "repr": lambda x: float(repr(x).split("[")[1].split(",")[0]),
    "dlpack": lambda x: np.from_dlpack(x.detach())[0],
    "memory": lambda x: float(x.data_ptr()),
    "apply": _by_apply,
    "thread": _in_a_thread,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_may_choose_by_its_numbers_has_no_program(reader: str) -> None:
    assert program_of(_chosen(READERS[reader])).reason


def _without_graph(x: Any) -> Any:
    with torch.no_grad():
        largest = x.max()
    return (x - largest).exp().sum()


def _hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda gradient: gradient * 0.5)
    return y.sum()


def _hooked_node(x: Any) -> Any:
    y = x * 2
    y.grad_fn.register_hook(lambda given, _: given)
    return y.sum()


def _packed(x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return torch.tanh(x).sum()


def _own_graph(x: Any) -> Any:
    return (x.detach().requires_grad_() * 2).sum() + x.sum()


calls = [0]


def _counting(x: Any) -> Any:
    calls[0] += 1
    return x.sum() * calls[0]


clipped = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
clipped.register_hook(lambda gradient: gradient.clamp(-4, 4))
draws = np.random.default_rng(0)


def _fails_elsewhere(x: Any) -> Any:
    with suppress(RuntimeError):
        torch.linalg.inv(torch.diag(x - 1.2345))
        return (x * 1.0).sum()
    return (x * 2.0).sum()


REFUSED = {
    "an error that is caught": _fails_elsewhere,
    "`if` by a number": lambda x: x.sum() * (2 if _here(x[0]) else 1),
    "indices by numbers": lambda x: x[x > 0].sum(),
    "a number cut off": lambda x: (x * x.detach()).sum(),
    "no graph": _without_graph,
    "random numbers": lambda x: (x * torch.rand(3)).sum(),
    "uninitialised memory": lambda x: (x + 0 * torch.empty(3)).sum(),
    "another dtype": lambda x: (x.half() * 2).float().sum(),
    "writes": lambda x: (x * 2).relu_().sum(),
    "a stated derivative": lambda x: Stated.apply(x).sum(),
    "a hook": _hooked,
    "a hook of a parameter": lambda x: (x * clipped).sum(),
    "indices that are drawn": lambda x: (x[torch.from_numpy(draws.permutation(3))] * x).sum(),
    "a hook of a node": _hooked_node,
    "hooks of what is saved": _packed,
    "a graph of its own": _own_graph,
    "a counter": _counting,
    "several outputs": lambda x: (x.sum(), x * 2),
    "a constant": lambda x: x * (torch.full((3,), 0.1, dtype=x.dtype) * 3 - 0.3),
}


@pytest.mark.parametrize("does", REFUSED)
def test_a_layer_whose_runs_or_derivatives_may_differ_has_no_program(does: str) -> None:
    assert program_of(REFUSED[does]).reason


def test_a_mode_that_flushes_small_numbers_is_refused() -> None:
    if not torch.set_flush_denormal(True):
        pytest.fail("this processor does not flush")
    try:
        assert "flush" in program_of(lambda x: x.sum()).reason
    finally:
        torch.set_flush_denormal(False)
