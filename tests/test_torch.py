"""The drop-in for torch.autograd.gradcheck; tests/acceptance/test_migration.py runs a project."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest
import torch
from torch.autograd import gradcheck as torch_gradcheck
from torch.autograd import gradgradcheck as torch_gradgradcheck
from torch.autograd.gradcheck import GradcheckError

from gradcheck_cli import GradientError
from gradcheck_cli.testing import drop_in
from gradcheck_cli.torch import gradcheck, gradgradcheck

X = torch.tensor([0.5, -1.25], dtype=torch.double, requires_grad=True)


class Nearly(torch.autograd.Function):
    """A backward that is off by one part in ten thousand."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2.0002 * g


class Asked(torch.autograd.Function):
    """Two outputs; the backward of a loss of the first alone fails."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, g, h):
        return 2 * g + 3 * h


@pytest.mark.parametrize(
    ("ours", "theirs"), [(gradcheck, torch_gradcheck), (gradgradcheck, torch_gradgradcheck)]
)
def test_the_signature_is_that_of_torch(ours, theirs) -> None:
    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert shape(ours) == shape(theirs)


def test_only_the_dtype_and_the_inputs_that_ask_are_checked() -> None:
    with pytest.raises(GradientError) as caught:
        gradcheck(lambda a, b: Nearly.apply(a) * Nearly.apply(b), (X, X.detach()))
    checks = caught.value.report.result.checks
    assert {(c.input, c.dtype, c.mode) for c in checks} == {("a", "float64", "reverse")}


def test_the_error_is_both_projects_and_survives_the_way_to_another_process() -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(Nearly.apply, X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, GradientError)
    assert isinstance(again, GradcheckError)
    assert "GC101" in str(again)


def test_chosen_tolerances_count_and_the_defaults_are_ours() -> None:
    assert torch_gradcheck(Nearly.apply, X)  # within rtol = 1e-3
    assert not gradcheck(Nearly.apply, X, raise_exception=False)
    assert gradcheck(Nearly.apply, X, atol=1e-4)
    assert not gradcheck(Nearly.apply, X, rtol=1e-5, raise_exception=False)


def test_undefined_gradients_are_checked_unless_left_out() -> None:
    assert not gradcheck(Asked.apply, X, raise_exception=False)
    assert gradcheck(Asked.apply, X, check_undefined_grad=False)


def test_what_has_no_meaning_here_is_warned_of_once(monkeypatch, recwarn) -> None:
    monkeypatch.setattr(drop_in, "_warned", set())
    gradcheck(torch.sin, X, eps=1e-4, fast_mode=True)
    gradcheck(torch.sin, X, eps=1e-4)
    gradgradcheck(torch.sin, X, X.detach())
    caught = [one for one in recwarn if "is ignored" in str(one.message)]
    named = [str(one.message).split("`")[1] for one in caught]
    assert named == ["eps", "fast_mode", "grad_outputs"]
    assert {one.filename for one in caught} == {__file__}


def test_second_derivatives_in_both_compositions() -> None:
    assert gradgradcheck(torch.sin, X, check_fwd_over_rev=True)
    with pytest.raises(AssertionError, match="check_rev_over_rev"):
        gradgradcheck(torch.sin, X, check_rev_over_rev=False)
    with pytest.raises(AssertionError, match="check_backward_ad"):
        gradcheck(torch.sin, X, check_backward_ad=False)


@pytest.mark.parametrize("name", ["torch", "jax", "tensorflow"])
def test_the_framework_is_imported_when_the_drop_in_is_called(name: str) -> None:
    code = f"import sys, gradcheck_cli.{name}; sys.exit('{name}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_complex_inputs_are_checked_in_their_dtype() -> None:
    z = torch.tensor([0.5 - 1j], dtype=torch.cdouble, requires_grad=True)
    assert gradcheck(lambda z: z.abs() * z.exp(), z)
    with pytest.raises(GradientError) as caught:
        gradcheck(lambda z: Nearly.apply(z), z)
    assert {finding.dtype for finding in caught.value.report.findings} == {"complex128"}
