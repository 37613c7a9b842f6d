"""Right layers have nothing but notes; a layer that cannot be run is left to the other checks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from gradcheck_cli.checks.behaviour import checks
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.failures import drop_implied, with_failure
from tests.checks.making import behaviour, examined, layer_problem, torch_engine

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((4, 6))


class Centred(torch.autograd.Function):
    """A right rule of several inputs, with everything that may be used in one."""

    @staticmethod
    def forward(ctx, x, w):
        y = (x - x.mean(-1, keepdim=True)) * w
        ctx.save_for_backward(x, w)
        return y, x.sum()

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        inner = g * w
        dw = (g * (x - x.mean(-1, keepdim=True))).sum(0) if ctx.needs_input_grad[1] else None
        return inner - inner.mean(-1, keepdim=True) + h, dw


def test_right_layers_have_nothing_but_notes() -> None:
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    layers = {
        "linear": (nn.Linear(6, 3), {"input": ROWS}),
        "layer norm": (nn.LayerNorm(6), {"input": ROWS}),
        "batch norm": (nn.BatchNorm1d(6), {"input": ROWS}),
        "lstm": (nn.LSTM(6, 3), {"input": ROWS[None]}),
        "attention": (lambda x: attention(x, x, x), {"x": ROWS[None]}),
        "convolution": (nn.Conv2d(1, 2, 2), {"input": RNG.standard_normal((2, 1, 4, 4))}),
        "pooling": (nn.MaxPool2d(2), {"input": RNG.standard_normal((2, 1, 4, 4))}),
        "ties and kinks": (lambda x: x.relu().amax(0), {"x": np.zeros((3, 2))}),
        "function": (Centred, {"x": ROWS, "w": RNG.standard_normal(6)}),
        "integers": (nn.Embedding(5, 3), {"input": np.array([0, 3, 3])}),
        "scripted": (torch.jit.script(nn.Linear(6, 3)), {"input": ROWS}),
        "spectral norm": (parametrizations.spectral_norm(nn.Linear(6, 3)), {"input": ROWS}),
        "overflow": (torch.exp, {"x": np.array([709.0, 1.0])}),
        "edge of the domain": (lambda x: torch.linalg.cholesky(x @ x.T), {"x": np.eye(2)}),
        "a cast": (lambda x: x.half() * 2, {"x": ROWS}),
        "singular at zero": (lambda x: x.norm(), {"x": np.zeros(3)}),
    }
    found = {name: behaviour(layer, inputs) for name, (layer, inputs) in layers.items()}
    assert found == {name: {} for name in layers}
    found = {name: behaviour(*layers[name], dtype="bfloat16") for name in ("linear", "function")}
    assert found == {name: {} for name in found}


def test_state_that_belongs_there_is_a_note() -> None:
    answer = examined(nn.BatchNorm1d(6), {"input": ROWS}, behaviour=True)
    assert answer.findings == ()
    (note,) = answer.notes
    assert "running_mean, running_var" in note


def test_random_numbers_are_a_note() -> None:
    found = behaviour(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)), {"input": ROWS})
    assert list(found) == ["GC601"]
    assert behaviour(nn.Dropout(0.5).eval(), {"input": ROWS}) == {}
    assert list(behaviour(lambda x: x * np.random.random(), {"x": ROWS})) == ["GC601"]


def test_a_layer_that_cannot_be_run_is_left_to_the_checks_of_its_gradients() -> None:
    def broken(x):
        raise ValueError("no")

    def told(layer, inputs):
        problems = [layer_problem(layer, inputs, behaviour=b) for b in (False, True)]
        answers = [with_failure(p, examine(torch_engine(), p)) for p in problems]
        assert answers[1].findings
        return drop_implied(problems, answers)

    (found,) = told(broken, {"x": ROWS})
    assert (found.code, found.message) == ("GC701", "ValueError: no")
    (found,) = told(lambda x: x > 0, {"x": ROWS})
    assert found.code == "GC109"
    found = told("layers.py:Transposed", {"x": ROWS, "w": np.eye(6)[:, :2]})
    assert all(finding.dtype == "float64" for finding in found)


def test_a_layer_without_float64_is_checked_in_its_own_precision() -> None:
    class Narrow(nn.Module):
        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            x *= 2
            return torch.sin(x)

    assert list(behaviour(Narrow(), {"x": ROWS}, dtype="float32")) == ["GC603"]


@pytest.mark.parametrize("behaves", [False, True])
def test_a_layer_that_raises_at_any_one_call_is_not_passed(behaves: bool) -> None:
    x = {"x": np.array([0.3, -1.2])}
    calls = 0

    def raising(at):
        def layer(x):
            nonlocal calls
            calls += 1
            if calls == at:
                raise RuntimeError("late")
            return torch.sin(x)

        return layer

    assert not examined(raising(0), x, behaviour=behaves).findings
    count, ways = calls, set()
    assert count > 5
    for at in range(1, count + 1):
        calls = 0
        layer = raising(at)
        answer = with_failure(
            layer_problem(layer, x, behaviour=behaves), examined(layer, x, behaviour=behaves)
        )
        assert answer.findings, at
        assert all("late" in f.message and "line" in f.detail for f in answer.findings), at
        ways |= {f.message.partition("late")[2] for f in answer.findings}
    assert " (in one call, but not in the next one with the same numbers)" in ways


def test_a_layer_that_raises_from_some_call_on_is_not_at_the_edge_of_its_domain() -> None:
    calls = 0

    def worn(x):
        nonlocal calls
        calls += 1
        if calls > 4:
            raise RuntimeError("worn out")
        return torch.sin(x)

    failure = examined(worn, {"x": np.array([0.3, -1.2])}, behaviour=True).failure
    assert failure is not None
    assert failure.message.startswith("RuntimeError: worn out")


def test_where_every_point_beside_is_refused_it_is_said() -> None:
    def narrow(x):
        if x.detach()[0] != 0.5:
            raise ValueError("only 0.5")
        return torch.sin(x) * (1 if torch.is_grad_enabled() else 1.001)

    answer = examined(narrow, {"x": np.array([0.5])}, behaviour=True)
    assert answer.failure is None
    assert not answer.findings
    assert "GC608 were checked only in part" in " ".join(answer.notes)


def test_a_layer_that_runs_only_with_gradients_has_all_its_faults_told() -> None:
    def hooked(x):
        y = x.sin()
        y.register_hook(lambda g: 2 * g)
        return y

    x = {"x": np.array([0.3, -1.2])}
    assert "GC608" in behaviour(hooked, x)
    answer = examined(hooked, x)
    assert answer.failure is None
    assert {finding.code for finding in answer.findings} == {"GC101"}


X = {"x": np.array([[0.7, -1.3], [0.2, 0.4]])}


def writes_to_its_input(x: Any) -> Any:
    y = x.exp()
    x.data.mul_(2.0)  # here
    return y


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        y_bar.mul_(2)  # here
        return y_bar


class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        rows = y_bar.as_strided((2, 2), (2, 1))
        return 2 * rows  # here


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 2 * y_bar + y_bar**2  # here


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any, z_bar: Any) -> Any:
        return 2 * y_bar + 3 * z_bar  # here


def draws(x: Any) -> Any:
    noise = torch.rand_like(x)  # here
    return x * noise


class Counted(torch.autograd.Function):
    generator = torch.Generator()

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        noise = torch.rand(2, generator=Counted.generator)  # here
        return 2 * y_bar + noise * y_bar


class Ticking(torch.autograd.Function):
    ticks = itertools.count(1)

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 2 * y_bar + math.sin(next(Ticking.ticks)) * y_bar  # here


def draws_in_a_library(x: Any) -> Any:
    return torch.nn.functional.dropout(x, 0.5)  # here


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        (writes_to_its_input, "GC603"),
        (Scaling, "GC604"),
        (Counted, "GC602"),
        (Ticking, "GC602"),
        (Flat, "GC606"),
        (Square, "GC607"),
        (Pair, "GC608"),
        (draws, "GC601"),
        (draws_in_a_library, "GC601"),
    ],
)
def test_the_line_is_named(layer: Callable[..., Any], code: str) -> None:
    (finding,) = examined(layer, X, behaviour=True).findings
    assert finding.code == code
    assert finding.place is not None
    assert finding.place.source.line(finding.place.span.line).endswith("# here")


def test_of_two_backwards_neither_is_accused() -> None:
    def both(x: Any) -> Any:
        return Flat.apply(x) + Square.apply(x)

    (finding,) = (f for f in examined(both, X, behaviour=True).findings if f.code == "GC607")
    assert finding.place is None


def test_a_backward_that_frees_what_it_kept_is_no_error() -> None:
    class Freeing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.x = x.detach()
            return x.exp()

        @staticmethod
        def backward(ctx: Any, y_bar: Any) -> Any:
            y_bar = y_bar * ctx.x.exp()
            del ctx.x
            return y_bar

    (finding,) = examined(Freeing, X, behaviour=True).findings
    assert (finding.code, finding.severity) == ("GC605", "warning")


@pytest.mark.parametrize("is_parameter", [False, True])
def test_a_large_layer_is_run_in_float64_only_where_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, is_parameter: bool
) -> None:
    monkeypatch.setattr(checks, "LARGE", 1000)
    numbers = RNG.standard_normal((40, 40))
    used: list[torch.dtype] = []
    factors: Iterator[int] = itertools.repeat(1)

    def product(x: Any, w: Any) -> Any:
        used.append(x.dtype)
        return torch.tanh(x @ w) * next(factors)

    class Layer(nn.Linear):
        def forward(self, x: Any) -> Any:
            return product(x, self.weight)

    layer, inputs = product, {"x": numbers[:2], "w": numbers}
    if is_parameter:
        layer, inputs = Layer(40, 40, bias=False), {"x": numbers[:2]}
    assert behaviour(layer, inputs, dtype="float32") == {}
    # how many parameters there are is known when they are bound
    assert used.count(torch.float64) == is_parameter
    factors = itertools.count(1)
    assert "GC602" in behaviour(layer, inputs, dtype="float32")
    assert used.count(torch.float64) > 2


def test_the_note_about_compilations_says_what_the_compiler_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "mutable_state", lambda bench: [])

    def notes(stages: tuple[str, ...], traced: str, *names: str) -> list[str]:
        subject = SimpleNamespace(stages=stages, traced_stage=traced)
        leaves = dict.fromkeys(names, SimpleNamespace(role="input"))
        bench: Any = SimpleNamespace(is_walled=False, subject=subject, leaves=leaves)
        return list(checks._notes(bench))

    compiled = "nothing compiled", "everything"
    assert notes(compiled, "traced", "x") == [checks.ONE_COMPILATION]
    assert notes(compiled, "", "x", "w") == [checks.ONE_REQUEST]
    assert notes(compiled, "", "x") == notes((), "", "x", "w") == []
