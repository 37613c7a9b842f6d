"""An expression of the user's runs as something else, and then as itself again."""

from __future__ import annotations

import ast
import functools
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer import source_lines
from gradcheck_cli.engines.layer.loading import _from_file
from gradcheck_cli.engines.layer.rewriting import Expression, NotRewritable
from gradcheck_cli.engines.layer.source_lines import returned

CODE = '''"""Functions of a user."""
import numpy as np

SCALE = 2.0


def plain(x):
    y = x + 1
    return np.log(
        y * SCALE
    )


def looped(x):
    total = 0.0
    for part in x:
        total = total + part * part
    return total


class Layer:
    def __init__(self):
        self.weight = 3.0

    def forward(self, x):
        é = self.weight * x
        return é * é


def made(scale):
    def inner(x):
        return scale * x

    return inner


square = lambda x: x * x
pair = (lambda x: x + 1, lambda x: x - 2, lambda x: x - 2)
tools = Layer()


def called(x):
    return tools.forward(x * 2)


def importing():
    import math as tools

    return tools
'''


@pytest.fixture
def code(tmp_path: Path) -> Any:
    path = tmp_path / "functions.py"
    path.write_text(CODE, "utf-8")
    return _from_file(path, "functions.py")


def place_of(code: Any, text: str) -> Place:
    """Where this text stands in the file, on one line."""
    lines = CODE.splitlines()
    line = next(i for i, one in enumerate(lines, 1) if text in one)
    column = lines[line - 1].index(text) + 1
    source = source_lines.Source(code.__file__, lines[line - 1], line)
    return Place(source, source_lines.Span(line, column, line, column + len(text)), text)


def numbers(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, (float, np.ndarray)) else None


@pytest.mark.parametrize(
    ("text", "new", "call", "was", "now"),
    [
        ("part * part", "abs(part)", lambda code: code.looped([-1.0, 2.0]), 5.0, 3.0),
        ("é * é", "é - x", lambda code: code.Layer().forward(2.0), 36.0, 4.0),
        ("x * x", "x * SCALE", lambda code: code.square(3.0), 9.0, 6.0),
        ("y * SCALE", "np.exp(y)", lambda code: code.plain(1.0), np.log(4.0), 2.0),
    ],
)
def test_an_expression_is_another_one_for_a_while(
    code: Any, text: str, new: str, call: Callable[[Any], float], was: float, now: float
) -> None:
    expression = Expression(place_of(code, text))
    assert call(code) == was
    with expression.replacing(new, {}):
        assert call(code) == now
    assert call(code) == was


def test_lambdas_on_one_line_are_told_apart(code: Any) -> None:
    place = place_of(code, "x - 2")  # the first of two that are equal
    with Expression(place).replacing("x * SCALE", {}):
        assert [one(3.0) for one in code.pair] == [4.0, 6.0, 1.0]
    assert [one(3.0) for one in code.pair] == [4.0, 1.0, 1.0]


def test_several_lines_are_one_expression(code: Any) -> None:
    place = returned(code.plain, None)
    assert place is not None
    with Expression(place).replacing("y", {}):
        assert code.plain(1.0) == 2.0


def test_functions_that_were_made_before_and_are_made_meanwhile_change(code: Any) -> None:
    before = code.made(2.0)
    expression = Expression(place_of(code, "scale * x"), before)
    with expression.replacing("scale + x", {}):
        during = code.made(5.0)
        assert (before(3.0), during(3.0)) == (5.0, 8.0)
    assert before(3.0) == 6.0


def test_an_import_in_another_function_changes_nothing(code: Any) -> None:
    with Expression(place_of(code, "x * 2")).replacing("x / 3", {}):
        assert code.called(1.0) == 1.0


def test_a_closure_keeps_what_it_holds(code: Any) -> None:
    inner = code.made(2.0)
    with Expression(place_of(code, "scale * x"), inner).replacing("x + 1", {}):
        assert inner(3.0) == 4.0
    assert inner(3.0) == 6.0


def test_what_is_raised_meanwhile_puts_the_code_back(code: Any) -> None:
    expression = Expression(place_of(code, "x * x"))
    with pytest.raises(NameError), expression.replacing("unknown(x)", {}):
        code.square(3.0)
    assert code.square(3.0) == 9.0


def test_given_names_are_there_for_a_while(code: Any) -> None:
    with Expression(place_of(code, "x * x")).replacing("helper(x)", {"helper": lambda x: -x}):
        assert code.square(3.0) == -3.0
    assert not hasattr(code, "helper")


def test_every_evaluation_is_seen_with_variables_and_parts(code: Any) -> None:
    expression = Expression(place_of(code, "part * part"))
    with expression.collecting(numbers) as seen:
        assert code.looped([-1.0, 2.0]) == 5.0
    assert [float(one.value) for one in seen] == [1.0, 4.0]
    assert [float(one.named["part"]) for one in seen] == [-1.0, 2.0]
    assert [float(one.named["total"]) for one in seen] == [0.0, 1.0]


def test_attributes_are_seen_by_their_text(code: Any) -> None:
    with Expression(place_of(code, "self.weight * x")).collecting(numbers) as seen:
        code.Layer().forward(2.0)
    assert set(seen[0].named) == {"self.weight", "x"}


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def test_parts_of_what_is_tried_run_once(code: Any) -> None:
    calls: list[float] = []

    def counted(x: float) -> float:
        calls.append(x)
        return x + 1

    code.counted = counted
    part = parsed("counted(x)")
    twice = ast.BinOp(part, ast.Mult(), parsed("2"))
    others = [
        twice,
        ast.UnaryOp(ast.USub(), twice),
        ast.BinOp(parsed("x"), ast.Sub(), part),
        parsed("counted(y)"),
        parsed("unknown + x"),
        ast.BinOp(parsed("sum(i for i in (1, 2))"), ast.Add(), part),
    ]
    with Expression(place_of(code, "x * x")).collecting(numbers, others) as seen:
        code.square(3.0)
    tried = [None if one is None else float(one) for one in seen[0].tried]
    assert tried == [8.0, -8.0, -1.0, None, None, 7.0]
    assert calls == [3.0]


def test_a_function_that_is_found_twice_gets_its_code_back(code: Any) -> None:
    """That of `made` is the same but for a function inside, so that nothing else tells that it was
    changed."""
    with Expression(place_of(code, "scale * x"), code.made, code.made).replacing("x + 1", {}):
        pass
    assert code.made(2.0)(3.0) == 6.0


def test_functions_that_only_the_layer_holds_are_found(code: Any) -> None:
    inner, other = code.made(2.0), code.made(2.0)
    gc.freeze()
    try:
        holder = [functools.partial(inner)]
        with Expression(place_of(code, "scale * x"), holder).replacing("x", {}):
            assert (inner(3.0), other(3.0)) == (3.0, 6.0)
    finally:
        gc.unfreeze()


def test_what_no_function_evaluates_cannot_be_rewritten(code: Any) -> None:
    with pytest.raises(NotRewritable, match="there is no function"):
        Expression(place_of(code, "2.0"))
    with pytest.raises(NotRewritable, match="no separate expression"):
        Expression(place_of(code, "total + part"))


def test_a_tuple_of_another_thread_can_be_finished(code: Any) -> None:
    place = place_of(code, "x * x")
    ended, found = threading.Event(), []

    def build() -> None:
        while not ended.is_set():
            try:
                tuple(number for number in range(40))
            except SystemError as error:
                found.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    for _ in range(5):
        assert Expression(place)._functions
    ended.set()
    thread.join()
    assert found == []


def test_a_file_that_has_changed_since_is_not_what_runs(code: Any) -> None:
    import linecache

    place = place_of(code, "x * x")
    Path(code.__file__).write_text(CODE.replace("lambda x: x * x", "lambda x: x * x + 1"), "utf-8")
    linecache.checkcache(code.__file__)
    with (
        pytest.raises(NotRewritable, match="differs from its source"),
        Expression(place).replacing("x", {}),
    ):
        pass
