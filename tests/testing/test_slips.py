"""Calls in the habits of other projects."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli import UsageError, check
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.testing.slips import chosen, one_by_one

X, W = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([1.0, 3.0, 0.1])
QUICK = {"dtypes": "float64", "modes": "rev"}


def scaled(x, scale):
    return x * scale


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("float32", ["float32"]),
        (torch.bfloat16, ["bfloat16"]),
        ([tf.float32, jnp.float16, np.float64], ["float32", "float16", "float64"]),
        (("fp32", "half"), ["float32", "float16"]),
        (float, ["float64"]),
        ("float31", ["float31"]),
        (None, None),
    ],
)
def test_dtypes_of_every_framework_and_their_short_names(given, names) -> None:
    assert chosen(given, FORMATS) == names


def test_modes_of_jax() -> None:
    assert chosen(("fwd", "rev"), FIRST_ORDER) == ["forward", "reverse"]


def test_a_tuple_of_all_inputs_is_taken_apart_where_it_can_be_nothing_else() -> None:
    assert one_by_one(scaled, [(X, W)]) == (X, W)
    assert one_by_one(lambda pair: pair[0], [(X, W)]) == [(X, W)]  # one input, which is a tuple
    assert one_by_one(torch.nn.LSTMCell(2, 3), [X, (W, W)]) == [X, (W, W)]
    report = check(scaled, (X, W), **QUICK)
    assert report.passed
    assert {one.input for one in report.result.checks} == {"x", "scale"}


@pytest.mark.parametrize(
    ("call", "words", "help"),
    [
        (lambda m: check(m, X, eps=1e-6), "no option `eps`", "choose their own steps"),
        (lambda m: check(m, X, atol=1e-4), "no option `atol`", "tolerance="),
        (lambda m: check(m, X, fast_mode=True), "`fast_mode`", "gradcheck_cli.torch.gradcheck"),
        (lambda m: check(m, (X,)), "given one tuple", "one by one"),
        (lambda m: check(m, X, model="input @ wight"), "unknown name `wight`", "`weight`"),
        (lambda m: check(m, X, wrt=["wieght"]), "no gradient for `wieght`", "weight"),
        (lambda m: check(m, X.to_sparse()), "`input` is a sparse tensor", "its values"),
        (lambda m: check(m, X * np.nan), "`input` contains nan", "`wrt`"),
        (lambda m: check(m, X, engines=["torch", "jax"]), "a layer has one engine", "torch"),
        (lambda m: check(m, X, allow=[{"code": "gc602", "reason": "x"}]), "`gc602`", "GC602"),
        (lambda m: check(m, X, allow="GC602"), "`allow` must be a list", "[GC602]"),
        (lambda m: check(m, X, dtypes="float23"), "`dtypes[0]`: text `float23`", "`float32`?"),
        (lambda m: check(m, X, wrt="input"), "`wrt` must be a list", "[input]"),
        (lambda m: check(m, X, power=2), "`power` must be below 1", ""),
        (lambda m: check(m, X, seed="a"), "`seed` is 'a', not a whole number", ""),
        (lambda m: check(lambda x: x), "no input was given", "check(layer, x)"),
    ],
)
def test_a_slip_is_answered_in_words_of_the_call(call, words, help) -> None:
    with pytest.raises(UsageError) as caught:
        call(torch.nn.Linear(3, 2))
    assert words in str(caught.value)
    assert help in caught.value.help
    files = [frame.path for frame in caught.traceback]
    assert [str(file) for file in files[:-1]] == [__file__] * 2, "no frames below check itself"


def test_an_argument_of_the_layer_is_no_slip() -> None:
    def normed(x, *, eps):
        return x / (x.norm() + eps)

    assert check(normed, X, eps=1e-6, **QUICK).passed


def test_engines_have_one_noun_and_keep_the_old_one() -> None:
    named = check("exp(x)", x=1.0, engines="np", dtypes="float64")
    assert {one.engine for one in named.result.checks} == {"numpy"}
    for name in ("engines", "engine"):
        report = check(scaled, X, W, **{name: "pytorch"}, **QUICK)
        assert {one.engine for one in report.result.checks} == {"torch"}


def test_a_finding_can_be_allowed() -> None:
    def cut(x):
        return x.exp().detach()

    allowed = [{"code": "GC102", "reason": "a constant by design"}]
    assert not check(cut, X, **QUICK).passed
    assert check(cut, X, allow=allowed, **QUICK).passed
