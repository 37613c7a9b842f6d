"""The line at which a layer does what it should not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.checks.making import examined

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
