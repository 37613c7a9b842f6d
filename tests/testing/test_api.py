"""`check` and `assert_gradients`, called as users call them."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch

import gradcheck_cli
from gradcheck_cli import GradientError, UsageError, assert_gradients, check
from gradcheck_cli.engines import devices
from gradcheck_cli.testing.layers import place_of
from gradcheck_cli.testing.values import gpu_of


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return 2 * y_bar * x


class Halved(Square):
    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        return y_bar * x


class Steep(torch.nn.Module):
    """A parameter, a buffer that every call moves, and random numbers that nobody sees."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=1.0):
        self.calls += 1
        torch.rand(1)
        return scale * torch.sin(self.weight * x)


class Halving(torch.nn.Module):
    def forward(self, x):
        return Halved.apply(x)


class SameName(torch.nn.Module):
    """A parameter and a buffer with the names of arguments."""

    def __init__(self, rule=Square) -> None:
        super().__init__()
        self.rule = rule
        self.x = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.register_buffer("y", torch.tensor([3.0, 4.0]))

    def forward(self, x, y):
        return self.rule.apply(self.x) * x * self.y * y


REVERSE = {"modes": ["reverse"]}


def codes(report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


def test_a_right_layer_passes_in_both_precisions() -> None:
    report = check(Square, torch.tensor([60.0, 1.0]), **REVERSE)
    assert report.passed
    assert {check.dtype for check in report.result.checks} == {"float32", "float64"}
    assert str(report).startswith("ok    Square")


def test_a_parameter_may_have_the_name_of_an_argument() -> None:
    x, y = torch.tensor([0.5, 1.5]), torch.tensor([1.0, 2.0])
    report = check(SameName(), x, y, **REVERSE)
    assert report.passed
    assert {one.input for one in report.result.checks} == {"x", "y", "self.x"}
    wrong = check(SameName(Halved), x, y, dtypes=["float64"], **REVERSE)
    assert {finding.input for finding in wrong.findings} == {"self.x"}


@pytest.mark.parametrize("layer", [lambda x: Halved.apply(x), Halving()])
def test_what_has_no_name_to_type_is_called_this_check(layer: Any) -> None:
    findings = check(layer, torch.tensor([60.0]), dtypes=["float32"], **REVERSE).findings
    repeat = 'this check with dtypes=["float32"], modes=["reverse"], seed=0'
    assert {finding.repeat for finding in findings} == {repeat}


def test_a_wrong_layer_is_told_with_the_whole_report_at_the_users_line() -> None:
    with pytest.raises(GradientError) as caught:
        assert_gradients(Halved.apply, torch.tensor([60.0, 1.0]), **REVERSE)
    words = str(caught.value)
    assert "error[GC101] wrong-gradient  Halved  torch float32, float64 reverse" in words
    assert "test_api.py" in words
    assert "return y_bar * x" in words
    assert 'check(Halved, ..., dtypes=["float32"], modes=["reverse"], seed=0)' in words
    assert isinstance(caught.value, AssertionError)
    assert codes(caught.value.report) == {"GC101"}


def test_where_nothing_has_a_gradient_nothing_has_passed() -> None:
    report = check(lambda n: n * 2.0, torch.tensor([1, 2]))
    assert not report.passed
    assert "nothing was checked" in str(report)
    assert "0 passed, 1 without a check" in str(report)


def test_only_what_asks_for_its_gradient_is_checked_where_somebody_asks() -> None:
    def layer(a, b):
        return Halved.apply(a) * b

    a, b = torch.tensor(3.0), torch.tensor(2.0, requires_grad=True)
    assert {c.input for c in check(layer, a, b, **REVERSE).result.checks} == {"b"}
    both = check(layer, a, b.detach(), **REVERSE)
    assert {c.input for c in both.result.checks} == {"a", "b"}
    assert {c.input for c in check(layer, a, b, wrt=["a"], **REVERSE).result.checks} == {"a"}


def test_inputs_go_by_place_and_by_name_and_what_is_no_array_goes_as_it_is() -> None:
    def layer(x, power, *, w, shape=None):
        assert isinstance(power, int)
        assert shape == (2,)
        return w * x**power

    report = check(layer, [1.0, 2.0], 3, w=torch.ones(2), kwargs={"shape": (2,)}, **REVERSE)
    assert report.passed
    assert {check.input for check in report.result.checks} == {"x", "w"}


def test_half_precision_of_the_inputs_is_the_one_that_is_checked() -> None:
    report = check(torch.sin, torch.ones(2, dtype=torch.bfloat16), **REVERSE)
    assert {check.dtype for check in report.result.checks} == {"bfloat16"}


def test_the_users_objects_are_as_they_were() -> None:
    module, x = Steep(), torch.tensor([0.5, 2.0], requires_grad=True)
    module(x).sum().backward()
    module.train()
    before = {
        "weight": module.weight.detach().clone(),
        "weight.grad": module.weight.grad.clone(),
        "x": x.detach().clone(),
        "x.grad": x.grad.clone(),
        "calls": module.calls.clone(),
        "random": torch.get_rng_state(),
    }
    threads, numpy_random = torch.get_num_threads(), np.random.get_state()[1].copy()
    report = check(module, x, dtypes=["float64"], **REVERSE)
    assert {"x", "weight"} <= {check.input for check in report.result.checks}
    after = {
        "weight": module.weight,
        "weight.grad": module.weight.grad,
        "x": x,
        "x.grad": x.grad,
        "calls": module.calls,
        "random": torch.get_rng_state(),
    }
    for name, value in before.items():
        assert torch.equal(value, after[name]), name
    assert module.weight.requires_grad
    assert module.weight.is_leaf
    assert module.training
    assert torch.get_num_threads() == threads
    assert np.array_equal(np.random.get_state()[1], numpy_random)
    assert torch.get_default_dtype() == torch.float32


def test_what_the_caller_is_in_the_midst_of_does_not_matter() -> None:
    x = torch.tensor([0.5, 2.0])
    with torch.no_grad(), torch.autocast("cpu"):
        assert check(Square, x, **REVERSE).passed
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert check(Square, torch.tensor([0.5, 2.0]), **REVERSE).passed


def test_what_a_layer_raises_is_a_finding_and_ctrl_c_is_not() -> None:
    def raises(x):
        raise ValueError("not today")

    def interrupted(x):
        raise KeyboardInterrupt

    x = torch.ones(2)
    report = check(raises, x, **REVERSE)
    assert codes(report) == {"GC701"}
    assert "ValueError: not today" in str(report)
    (place,) = {found.place.text for found in report.findings}
    assert place == 'raise ValueError("not today")'
    with pytest.raises(KeyboardInterrupt):
        check(interrupted, x, **REVERSE)


def test_a_formula_is_checked_as_in_a_spec() -> None:
    report = check("1 / exp(x)", x=100, engine="reference", dtypes=["float32"], modes=["reverse"])
    assert codes(report) == {"GC201"}
    assert "fix   exp(-x)" in str(report)
    assert 'check("1 / exp(x)", ...' in str(report)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: check(Square, x, dtype=["float32"]), "there is no option `dtype`"),
        (lambda x: check(Square, x, dtypes=["float31"]), "`dtypes[0]`: text `float31`"),
        (lambda x: check(Square, x, x), "takes 1 argument, but 2 were given"),
        (lambda x: check(3, x), "an object of type int cannot be called"),
        (lambda x: check(Square, x, x=x), "`x` is given twice"),
        (lambda x: check(Square, x, domain={"y": (0, 1)}), "`domain` names `y`"),
        (lambda x: check(Square, x, domain=(1, 0)), "the domain of `x`"),
        (lambda x: check(Square, x, engine="troch"), "unknown engine `troch`"),
        (lambda x: check(Square, x, surrogate={"backward": "x"}), "lacks `reason`"),
        (lambda x: check(Square, x + 1j, domain=(0, 1)), "`x` is complex, but `domain`"),
        (lambda x: check("exp(x)", x=1j), "formulas compute with real numbers"),
        (lambda x: check(lambda x: x, 1.0), "which framework they belong to"),
        (lambda x: check("exp(y)", x=1.0), "unknown name `y`"),
        (lambda x: check("exp(x)", 1.0), "a formula takes its inputs by name"),
        (lambda x: assert_gradients(Square, x, fail_on="notes"), "`fail_on` is 'notes'"),
    ],
)
def test_a_call_that_is_not_in_order_is_refused(call, words) -> None:
    with pytest.raises(UsageError) as caught:
        call(torch.ones(2))
    assert words in str(caught.value)


def test_a_state_in_a_tuple_is_an_input_too() -> None:
    cell = torch.nn.LSTMCell(2, 3)
    report = check(cell, torch.ones(1, 2), (torch.zeros(1, 3), torch.ones(1, 3)), **REVERSE)
    assert report.passed
    assert {"input", "hx[0]", "hx[1]", "weight_ih"} <= {c.input for c in report.result.checks}


def test_a_layer_of_one_precision_is_checked_in_that_one() -> None:
    def layer(x):
        assert x.dtype == torch.float32, "single precision only"
        return x * x

    report = check(layer, torch.ones(2), **REVERSE)
    assert report.passed
    assert {check.dtype for check in report.result.checks} == {"float32"}
    assert "single precision only" in str(report)
    assert not check(layer, torch.ones(2), dtypes=["float64"], **REVERSE).passed


def test_an_error_survives_the_way_to_another_process() -> None:
    report = check(Halved, torch.ones(2), dtypes=["float64"], **REVERSE)
    error = pickle.loads(pickle.dumps(GradientError(report)))
    assert error.report.passed is False
    assert "GC101" in str(error)


def test_a_device_that_is_not_here_and_one_that_the_framework_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.ones(2)
    monkeypatch.setattr(devices, "cuda_devices", lambda: (0, "there is none"))
    with pytest.raises(UsageError, match="no device `cuda` here: there is none"):
        check(torch.sin, x, device="cuda")
    monkeypatch.setattr(devices, "cuda_devices", lambda: (1, ""))
    with pytest.raises(UsageError, match=r"PyTorch .* finds 0 GPUs"):
        check(torch.sin, x, device="cuda", matmul_precision="tf32")
    pair = {"backward": lambda y_bar, x: 2 * y_bar, "dtypes": ["float64"]}
    (refused,) = check(lambda x: x * 2, [1.0], device="cuda", **pair).findings
    assert (refused.code, refused.message) == (
        "GC705",
        "numpy runs on the CPU only; the device `cuda` is not supported",
    )
    assert check(torch.sin, x, device="cpu", dtypes=["float64"], modes=["reverse"]).passed


def test_tensors_of_a_gpu_are_checked_there() -> None:
    class OnGpu:
        is_cuda, device = True, "cuda:1"

    class Module:
        def parameters(self) -> list[OnGpu]:
            return [OnGpu()]

    assert gpu_of(torch.sin, [torch.ones(2), OnGpu()]) == "cuda:1"
    assert gpu_of(Module(), [torch.ones(2), 3]) == "cuda:1"
    assert gpu_of(torch.nn.Linear(1, 1), [torch.ones(2)]) is None


class Scaled(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_class_is_made_with_the_arguments_of_its_constructor() -> None:
    report = check(Scaled, torch.randn(2, 3), args=[3])
    assert report.passed
    assert {found.input for found in report.result.checks} == {"x", "scale"}
    assert check(torch.nn.Linear, torch.randn(2, 3), args=[3, 2], dtypes=["float64"]).passed


def test_a_report_is_one_line_where_it_is_shown_as_a_value() -> None:
    report = check(lambda x: x.exp().detach(), torch.ones(2), dtypes=["float64"], name="cut")
    assert repr(report) == "<CheckReport: GC102 missing-gradient in cut; 2 checks>"
    assert report._repr_html_().startswith('<div class="gradcheck"><style>')
    assert report.to_dict()["summary"]["failed"] == 1


def test_what_was_typed_in_has_no_place_in_a_library() -> None:
    scope: dict[str, Any] = {"torch": torch, "__name__": "__main__"}
    text = """
class Typed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, g):
        return 3 * g
class Own(torch.nn.Linear):
    pass
"""
    exec(text, scope)
    for layer in (scope["Typed"], scope["Typed"].apply, scope["Own"](2, 2)):
        source, _ = place_of(layer)
        assert not source.text
        assert "/" not in source.path


def test_a_check_leaves_every_public_name_as_it_was() -> None:
    """An import of a submodule that is called like a function would take the function's place."""
    assert check(torch.sin, torch.ones(1)).passed
    for name in gradcheck_cli.__all__:
        assert callable(getattr(gradcheck_cli, name))


@pytest.mark.parametrize(
    ("formula", "place", "line"),
    [
        ("1 + srqt(x)", (1, 5), "1 + srqt(x)"),
        ("a = x * x\na + foo", (2, 5), "a + foo"),
        ("\n    a = x\n    srqt(a)\n", (2, 1), "srqt(a)"),
        ("a = (x +\n  y) * x\na", (2, 3), "  y) * x"),
    ],
)
def test_a_place_in_a_formula_is_that_of_its_own_text(
    formula: str, place: tuple[int, int], line: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check(formula, x=1.0)
    words = str(refused.value)
    assert "formula:{}:{}\n".format(*place) in words
    assert f"{place[0]} | {line}\n" in words


def test_a_finding_of_a_formula_is_on_the_line_of_its_own_text() -> None:
    report = check("a = x - 1\nb = sqrt(a)\n2 * b", x=1.0, engines=["reference"])
    assert (report.findings[0].span.line, report.findings[0].span.column) == (2, 5)
    assert "formula:2:5\n" in str(report)
    assert "2 | b = sqrt(a)\n" in str(report)


@pytest.mark.parametrize("formula", ["sqrt(x)", "\n  a = x\n  sqrt(a)\n", "sqrt(\n  x)"])
def test_a_report_shows_no_line_beside_those_of_the_formula(formula: str) -> None:
    report = check(formula, x=0.0, engines=["reference"], name="root")
    html = report._repr_html_()
    shown = re.findall(r'<span class="number"[^>]*>\d+</span>(.*)', html)
    plain = [re.sub("<[^>]*>", "", line).strip() for line in shown]
    assert plain
    assert set(plain) == {line.strip() for line in formula.split("\n") if line.strip()}
