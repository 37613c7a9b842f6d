"""Which stretch of a user's file is running, and what a function of theirs returns."""

from __future__ import annotations

import ctypes
import runpy
from collections.abc import Callable
from functools import lru_cache
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from torch.autograd.function import once_differentiable

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.source_lines import (
    Places,
    calling,
    ending,
    raised_at,
    returned,
    stood_at,
    storing,
)


def stretch(place: Place | None) -> str:
    assert place is not None
    line = place.source.line(place.span.line)
    if place.span.line == place.span.end_line:
        assert line[place.span.column - 1 : place.span.end_column - 1] == place.text
    return place.text


def test_the_innermost_expression_that_runs() -> None:
    places = Places()
    found: list[Place | None] = []

    def told(x: Any) -> Any:
        found.append(places.running())
        return x

    def layer(x: Any) -> Any:
        ünïcode = x
        return ünïcode + max([3, 4], key=told)

    layer(1)
    assert [stretch(place) for place in found] == ["places.running()"] * 2
    assert found[0] is found[1], "each is made once"


def test_lines_that_an_expression_spans_are_one_text() -> None:
    (found,) = list(
        map(methodcaller("running"), [Places()]),
    )
    assert stretch(found) == 'list( map(methodcaller("running"), [Places()]), )'
    assert found.span.end_line == found.span.line + 2


def test_a_crash_is_at_the_users_line_and_not_at_that_of_a_library() -> None:
    number = one.__code__.co_firstlineno + 1
    dump = "Fatal Python error: Segmentation fault\n"
    assert stood_at(dump) is None
    dump += f'  File "{ctypes.__file__}", line 519 in string_at\n'
    assert stood_at(dump) is None
    place = stood_at(f'{dump}  File "{__file__}", line {number} in one')
    assert stretch(place) == "x = 1.0"
    assert stood_at(f'{dump}  File "nowhere.py", line 1 in one') is None


def test_a_line_that_is_no_python_is_where_a_syntax_error_was_raised(tmp_path: Path) -> None:
    """And never a line of what imports it."""
    (tmp_path / "broken.py").write_text("x = 1\nif x\n")
    with pytest.raises(SyntaxError) as caught:
        runpy.run_path(str(tmp_path / "broken.py"))
    assert stretch(raised_at(caught.value)) == "if x"
    with pytest.raises(SyntaxError) as caught:
        eval("1 +")
    assert stretch(raised_at(caught.value)) == 'eval("1 +")'


def one() -> Any:
    x = 1.0
    return -x


def several(g: float) -> Any:
    def inner() -> Any:
        return "not this"

    if g > 0:
        return g, inner
    return (
        2 * g,
        None,
        g**2,
    )


def test_what_is_returned_last() -> None:
    def check(function: Callable[..., Any], index: int, text: str) -> None:
        assert stretch(returned(function, index)) == text

    check(one, 0, "-x")
    check(one, 3, "-x")
    check(several, 0, "2 * g")
    check(several, 2, "g**2")
    assert returned(several, 2).span.line == returned(several, 0).span.line + 2  # type: ignore[union-attr]
    assert returned(len, 0) is None


@once_differentiable
def decorated(ctx: Any, g: float) -> float:
    return 3 * g


@lru_cache
def kept(x: float) -> float:
    return 4 * x


def test_a_decorated_function_is_in_its_own_file() -> None:
    for function, text in ((decorated, "3 * g"), (kept, "4 * x")):
        place = returned(function, 0)
        assert stretch(place) == text
        assert place is not None
        assert place.source.path.endswith("test_source_lines.py")


def nothing() -> None:
    one()


def test_a_layer_ends_where_it_returns_or_where_it_is_defined() -> None:
    assert stretch(ending(one)) == "-x"
    assert stretch(ending(nothing)) == "def nothing() -> None:"
    assert ending(len) is None


PAIR = (
    lambda x: (x, None),
    lambda x, y_bar: (x * y_bar, {"w": y_bar}),
)


def test_what_a_lambda_is() -> None:
    assert stretch(returned(PAIR[1], 0)) == "x * y_bar"
    assert stretch(returned(PAIR[1], 1)) == '{"w": y_bar}'


def cutting(ctx: Any, x: Any) -> Any:
    ctx.slope = x.detach()
    return ctx.slope * x.data


def test_what_is_called_read_and_stored() -> None:
    assert stretch(calling(cutting, "data", "detach")) == "x.detach()"
    assert stretch(calling(cutting, "data")) == "x.data"
    assert stretch(calling(cutting, "slope", "item")) == "ctx.slope"
    assert calling(cutting, "item") is None
    assert stretch(storing(cutting, "slope")) == "ctx.slope = x.detach()"
    assert storing(cutting, "data") is None


CALLS = (lambda x: x.sum(), lambda x: x.max())


def test_what_a_lambda_calls() -> None:
    assert stretch(calling(CALLS[1], "sum", "max")) == "x.max()"
    assert calling(CALLS[1], "sum") is None
