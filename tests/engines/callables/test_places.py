"""Which stretch of a user's file is running, and what a function of theirs returns."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.callables.places import Places, returned


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


PAIR = (
    lambda x: (x, None),
    lambda x, y_bar: (x * y_bar, {"w": y_bar}),
)


def test_what_a_lambda_is() -> None:
    assert stretch(returned(PAIR[1], 0)) == "x * y_bar"
    assert stretch(returned(PAIR[1], 1)) == '{"w": y_bar}'
