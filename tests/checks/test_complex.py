"""Complex numbers in layers: both parts are compared with the truth, in the convention that each
framework has for gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli import CheckReport, check
from gradcheck_cli.domain.codes import Codes

Z = np.array([0.6 - 0.8j, -1.3 + 0.4j, 0.2 + 1.1j])
ONCE = {"dtypes": "complex128", "modes": ["reverse"]}

OF_DERIVATIVE = "the complex conjugate of the derivative: a conj() is missing or superfluous"
OF_GRADIENT = "the complex conjugate of the gradient"
OF_UPSTREAM = "right for the complex conjugate of the upstream gradient"


def patterns(report: CheckReport) -> set[str | None]:
    assert {finding.code for finding in report.findings} == {Codes.WRONG_GRADIENT}
    return {finding.pattern for finding in report.findings}


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        (torch.exp, Z),
        (torch.abs, Z),
        (lambda z: torch.angle(z) * z.conj(), Z),
        (lambda z: z @ torch.outer(z, z).mH, Z),
        (torch.fft.fft, Z.real),
        (torch.fft.irfft, Z),
    ],
    ids=["holomorphic", "to real", "of the conjugate", "matrices", "of real", "inverse"],
)
def test_parts_of_right_gradients_are_certified(layer: Any, given: Any) -> None:
    report = check(layer, torch.tensor(given), dtypes="complex128" if given is Z else "float64")
    assert report.passed
    assert not report.findings
    assert {one.truth for one in report.results[0].checks} == {"certified, from the trace"}
    assert {one.mode for one in report.results[0].checks} == {"reverse", "forward"}


def test_a_modulus_has_a_kink_at_zero() -> None:
    report = check(torch.abs, torch.zeros(1, dtype=torch.complex64), dtypes="complex64")
    assert report.passed
    assert {finding.code for finding in report.findings} == {Codes.KINK}


def test_second_derivatives_are_those_by_the_parts() -> None:
    report = check(lambda z: (z * z * z.conj()).real, torch.tensor(Z[:1]), order=2, **ONCE)
    assert report.passed
    assert "reverse-over-reverse" in {one.mode for one in report.results[0].checks}


def test_conjugates_that_torch_has_yet_to_make_are_taken_as_they_are() -> None:
    lazy = torch.tensor(Z[:1]).conj()
    report = check(lambda z, x: z * x, lazy, lazy.imag, **ONCE)
    assert report.passed


class Rotation(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phase = torch.nn.Parameter(torch.tensor([0.6 + 0.8j]))
        self.gain = torch.nn.Parameter(torch.tensor([2.0]))

    def forward(self, x: Any) -> Any:
        return self.gain * x * self.phase


def test_complex_parameters_are_checked_and_stay_as_they_are() -> None:
    layer = Rotation()
    report = check(layer, torch.tensor([1.5]))
    assert report.passed
    assert {one.input for one in report.results[0].checks} == {"x", "phase", "gain"}
    assert layer.phase.dtype == torch.complex64
    assert layer.phase.item() == torch.tensor(0.6 + 0.8j)


# Backwards that are wrong, and how


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b, g * a.conj()


def test_a_missing_conjugate_is_found_in_the_function_that_lacks_it() -> None:
    report = check(lambda z: Product.apply(z * 2, z), torch.tensor(Z), **ONCE)
    (finding,) = report.findings
    assert finding.code == Codes.WRONG_GRADIENT
    assert finding.pattern == f"{OF_DERIVATIVE}, in `Product` for `a`"
    assert finding.cause is not None
    assert finding.cause.proven
    assert finding.dtype == "complex128"
    assert re.search(r"doutput\[\d\]\.(re|im)/dz\[\d\]\.(re|im)", str(report))


Backward = Callable[..., Any]


@pytest.mark.parametrize(
    ("forward", "backward", "given", "pattern"),
    [
        (lambda a: a**2, lambda g, a: 2 * g * a.conj(), Z, None),
        (lambda a: a**2, lambda g, a: 2 * g * a, Z, OF_DERIVATIVE),
        (lambda a: (a * a.conj()).real, lambda g, a: 2 * g * a.conj(), Z, OF_GRADIENT),
        (np.fft.fft, lambda g, a: len(a) * np.fft.ifft(g).real, Z.real, None),
        (np.fft.fft, lambda g, a: np.fft.fft(g).real, Z.real, OF_UPSTREAM),
    ],
)
def test_pairs_of_numpy_have_the_convention_of_torch(
    forward: Backward, backward: Backward, given: Any, pattern: str | None
) -> None:
    report = check(forward, given, backward=backward, dtypes="float64")
    assert report.passed == (pattern is None)
    if pattern is not None:
        assert patterns(report) == {pattern}


def test_a_complex_gradient_of_a_real_input_is_of_the_wrong_kind() -> None:
    report = check(np.fft.fft, Z.real, backward=lambda g, a: 2 * np.fft.ifft(g))
    (finding,) = {(one.code, one.message) for one in report.findings}
    assert finding == (
        Codes.WRONG_SHAPE_OR_DTYPE,
        "the gradient of `a` is complex, but `a` is real",
    )


@jax.custom_vjp
def jax_square(z: Any) -> Any:
    return z * z


jax_square.defvjp(lambda z: (z * z, z), lambda z, g: (2 * g * z,))


@tf.custom_gradient
def tensorflow_square(z: Any) -> Any:
    return z * z, lambda g: 2 * g * tf.math.conj(z)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("layer", "given"),
    [
        (jax_square, jnp.asarray),
        (lambda z: jnp.abs(jnp.fft.fft(z)), jnp.asarray),
        (tensorflow_square, tf.constant),
        (lambda z: tf.abs(tf.signal.fft(z)), tf.constant),
    ],
)
def test_conventions_of_jax_and_tensorflow(layer: Any, given: Any) -> None:
    report = check(layer, given(Z[:1]), **ONCE)
    assert report.passed
    assert not report.findings
    assert any("complex gradient" in note for note in report.results[0].notes)


@pytest.mark.exhaustive
def test_trees_of_jax_may_hold_complex_parameters() -> None:
    params = {"w": jnp.asarray(Z), "b": jnp.asarray(0.5)}
    report = check(lambda p: jnp.abs(p["w"] @ p["w"]) + p["b"], params, **ONCE)
    assert report.passed
    assert len(report.results[0].checks) == 2
