"""Where in the user's files a layer is defined."""

from __future__ import annotations

import gc
import textwrap
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from gradcheck_cli import check
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.engines.layer.loading import backward_beside
from gradcheck_cli.testing.layers import name_of, place_of


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


def plain(x: Any) -> Any:
    return x


@decorated
def wrapped(x: Any) -> Any:
    return x


class Called:
    def __call__(self, x: Any) -> Any:
        return x


class WithoutHash:
    __hash__ = None  # type: ignore[assignment]

    def forward(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(
    ("layer", "line", "name"),
    [
        (plain, "def plain(x: Any) -> Any:", "plain"),
        (wrapped, "def wrapped(x: Any) -> Any:", "wrapped"),
        (partial(plain, 1), "def plain(x: Any) -> Any:", "plain"),
        (Called, "class Called:", "Called"),
        (Called(), "class Called:", "Called"),
        (WithoutHash(), "    def forward(self, x: Any) -> Any:", "WithoutHash"),
        (WithoutHash().forward, "    def forward(self, x: Any) -> Any:", "forward"),
    ],
)
def test_a_definition_is_pointed_at_without_its_decorators(
    layer: Any, line: str, name: str
) -> None:
    for _ in range(2):  # the second time it is known
        source, span = place_of(layer)
        assert source.line(span.line) == line
        assert source.path.endswith("test_layers.py")
        assert line[span.column - 1 : span.end_column - 1] == line.strip()
    assert name_of(layer) == name


def test_what_has_no_file_has_its_name_alone() -> None:
    scope: dict[str, Any] = {}
    exec("def typed(x):\n    return x", scope)
    source, span = place_of(scope["typed"])
    assert (source.path, source.text, span.line) == ("typed", "", 1)
    assert place_of(len)[0].path == "len"
    caller = Called()
    caller.__wrapped__ = scope["typed"]  # type: ignore[attr-defined]
    caller.__name__ = "typed"  # type: ignore[attr-defined]
    assert place_of(caller)[0].path == "typed"  # where its class stands says nothing
    assert name_of(lambda x: x) == "lambda"


def test_the_file_of_a_module_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x

    place_of(Doubled())
    monkeypatch.setattr("inspect.getsourcelines", pytest.fail)
    _, span = place_of(Doubled())
    assert span.line > 1


@pytest.mark.parametrize(("inputs", "groups", "others"), [(1, 1, 1), (2, 2, 0), (3, 3, 0)])
def test_a_check_has_a_budget_of_runs(inputs: int, groups: int, others: int) -> None:
    """That of docs/internals.md; `torch.autograd.gradcheck` needs two for each entry, and two
    more."""
    runs = 0

    def layer(*given: torch.Tensor) -> torch.Tensor:
        nonlocal runs
        runs += 1
        return torch.sin(sum(given[1:], given[0]))

    point = [torch.linspace(0.3, 1.1, 4, dtype=torch.float64) + i for i in range(inputs)]
    for recording in (1, 0):
        runs = 0
        assert check(layer, *point, dtypes=["float64"], modes=["reverse"]).passed
        assert runs == 11 + 2 * groups + others + recording


def sine(x: Any) -> Any:
    return np.sin(x)


def sine_backward(upstream: Any, x: Any) -> Any:
    return upstream * np.cos(x)


def alone(x: Any) -> Any:
    return x * x


def test_a_numpy_function_has_its_backward_beside_it_in_its_module() -> None:
    x = np.array([0.5, -1.0])
    assert backward_beside(sine) is sine_backward
    assert check(sine, x).passed
    assert check(sine, x, engine="numpy").passed
    with pytest.raises(UsageError, match="alone has no `alone_backward` beside it"):
        check(alone, x, engine="numpy")
    with pytest.raises(UsageError, match="which framework they belong to"):
        check(alone, x)


def test_a_check_leaves_no_circles_that_hold_its_numbers() -> None:
    """Objects that know each other would stay, with the arrays of the layer, until Python looks for
    them, and would make it look more often."""
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):  # what is made once stays
        check(torch.nn.functional.softplus, x)
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        check(torch.nn.functional.softplus, x)
        gc.collect()
        held = (part for one in gc.garbage for part in gc.get_referents(one))
        left = [part for part in held if isinstance(part, (np.ndarray, torch.Tensor))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


def test_a_function_that_another_file_wraps_is_shown_where_it_is_written() -> None:
    foreign = wraps(textwrap.dedent)(lambda x: x)
    source, span = place_of(foreign)
    assert source.path.endswith("textwrap.py")
    assert source.line(span.line).startswith("def dedent")


def test_a_number_that_the_layer_takes_as_such_is_passed_on() -> None:
    report = check(torch.nn.functional.leaky_relu, torch.tensor([1.0, -2.0]), 0.1)
    assert report.passed
    assert "`negative_slope`: not differentiated" in str(report)


class Pair(NamedTuple):
    a: Any
    b: Any


def test_a_named_tuple_comes_as_one() -> None:
    def layer(state: dict[str, Pair]) -> Any:
        assert type(state["h"]) is Pair
        return state["h"].a * state["h"].b.sin()

    assert check(layer, {"h": Pair(torch.tensor([1.0]), torch.tensor([3.0]))}).passed
