"""The drop-in for jax.test_util.check_grads."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import pytest
from jax.test_util import check_grads as jax_check_grads

from gradcheck_cli import GradientError
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.jax import check_grads
from gradcheck_cli.testing import drop_in

X = jnp.array([0.5, -1.25])


@jax.custom_jvp
def nearly(x):
    return 2 * x


@nearly.defjvp
def _nearly_jvp(primals, tangents):
    return 2 * primals[0], 2.0002 * tangents[0]


def test_the_signature_is_that_of_jax() -> None:
    assert list(inspect.signature(check_grads).parameters.values()) == [
        p.replace(annotation=ours.annotation)
        for p, ours in zip(
            inspect.signature(jax_check_grads).parameters.values(),
            inspect.signature(check_grads).parameters.values(),
            strict=True,
        )
    ]


def test_trees_modes_and_both_orders() -> None:
    def layer(parameters, x):
        return jnp.sin(parameters["w"] * x)

    check_grads(layer, ({"w": X}, X), order=2, modes=("rev",))
    check_grads(jnp.sin, [1.5], 1, modes=["fwd", "rev"])


def test_a_wrong_derivative_that_jax_accepts() -> None:
    jax_check_grads(nearly, (X,), 1)
    with pytest.raises(GradientError) as caught:
        check_grads(nearly, (X,), 1)
    checks = caught.value.report.result.checks
    assert {(c.dtype, c.mode) for c in checks} == {("float32", "forward"), ("float32", "reverse")}


def test_given_tolerances_count_and_jax_fills_in_the_other() -> None:
    check_grads(nearly, (X,), 1, atol=1e-3)
    check_grads(nearly, (X,), 1, rtol={jnp.float32: 1e-3})
    with pytest.raises(AssertionError):
        check_grads(nearly, (X,), 1, atol=1e-9, rtol=1e-6)


def test_what_has_no_meaning_here_is_warned_of(monkeypatch, recwarn) -> None:
    monkeypatch.setattr(drop_in, "_warned", set())
    check_grads(jnp.sin, (X,), 4, modes=("lin",), eps=1e-3)
    caught = [one for one in recwarn if "is ignored" in str(one.message)]
    assert [str(one.message).split("`")[1] for one in caught] == ["eps", "lin", "order"]
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"modes": ["fwd", "rv"]}, r"`modes\[1\]`: text `rv` is not valid"),
        ({"modes": []}, "`modes` needs at least 1 entry"),
        ({"order": "2"}, "`order` must be a whole number, not text `2`"),
        ({"order": 0}, "`order` must be at least 1"),
        ({"args": 1.5}, "`args` is 1.5, not a tuple"),
        ({"args": ()}, "no argument is floating or complex"),
        ({"args": (3, None)}, "no argument is floating or complex"),
        ({"atol": -1.0}, "`tolerance.atol.float32` must be at least 0"),
    ],
)
def test_arguments_that_would_check_nothing_are_refused(changed, words) -> None:
    """JAX's own passes some of them: a mode that it does not know is not checked."""
    with pytest.raises(UsageError, match=words):
        check_grads(jnp.sin, **{"args": (X,), "order": 1, **changed})


@pytest.mark.exhaustive
def test_complex_arguments_have_the_tolerance_of_their_parts() -> None:
    z = jnp.array([0.5 - 1j])
    check_grads(lambda z: jnp.abs(z) * z, (z,), 1, modes=["rev"], atol=1e-3)
