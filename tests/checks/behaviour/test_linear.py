from typing import Any

import numpy as np
import torch

from gradcheck_cli.checks.examination import examine
from tests.checks.making import behaviour, layer_problem
from tests.conftest import loaded

X = {"x": np.array([0.7, -1.3, 0.4])}


def sine(change):
    """sin, whose backward changes the upstream gradient first."""

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return change(g) * torch.cos(ctx.saved_tensors[0])

    return Sine


def test_what_breaks_the_rule() -> None:
    found = {
        "clipped": behaviour(sine(lambda g: g.clamp(-2, 2)), X),
        "normed": behaviour(sine(lambda g: g / g.norm() * g.norm()), X),
        "offset": behaviour(sine(lambda g: g + 1e-3), X),
        "one sign": behaviour(sine(lambda g: g.abs()), X),
        "sorted": behaviour(sine(lambda g: g * (g.abs() >= g.abs().median())), X),
    }
    assert [list(codes) for codes in found.values()] == [["GC607"]] * 5
    assert "is nan" in found["normed"]["GC607"]
    assert "of zero" in found["offset"]["GC607"]
    assert "-1024 times" in found["one sign"]["GC607"]
    assert "sum of two" in found["sorted"]["GC607"]


def test_what_is_linear_and_only_wrong_is_left_to_the_truth() -> None:
    assert behaviour(sine(lambda g: -g), X) == {}
    assert behaviour(sine(lambda g: g.flip(0)), X, dtype="float16") == {}


def test_what_cancellation_leaves_of_large_upstream_gradients_is_linear() -> None:
    for left in np.geomspace(3e-14, 3e-12, 20):
        assert behaviour(sine(lambda g, left=left: g - g * (1 - left)), X) == {}, left


def test_the_tolerance_of_a_solver_need_not_be_linear() -> None:
    import jax.numpy as jnp
    from jax.experimental.ode import odeint

    def solved(x: Any) -> Any:
        return odeint(lambda y, t: jnp.sin(y), x, jnp.array([0.0, 1.0]), rtol=1e-5, atol=1e-5)

    problem = layer_problem(solved, {"x": [0.3, 1.2]}, engine="jax", behaviour=True)
    answer = examine(loaded("jax"), problem)
    assert answer.failure is None
    assert not answer.findings
