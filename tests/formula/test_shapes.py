from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import array_shapes

from gradcheck_cli.formula.errors import Problem
from gradcheck_cli.formula.shapes import KINDS, infer
from reference_engine.op import TABLE
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES

from .writing import helps, mistakes, output, program


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x @ x", "x @ x: (3, 2) @ (3, 2): the inner sizes 2 and 3 differ"),
        (
            "s @ x",
            "s @ x: () @ (3, 2): @ needs a vector or a matrix on both sides; for numbers write *",
        ),
        ("x + W", "x + W: (3, 2) + (2, 4): the sizes 2 and 4 on axis -1 differ"),
        ("maximum(x, W)", "maximum(x, W): (3, 2), (2, 4): the sizes 2 and 4 on axis -1 differ"),
        ("sum(x, axis=2)", "sum(x, axis=2): (3, 2): there is no axis 2"),
        (
            "sum(s, axis=0)",
            "sum(s, axis=0): (): there is no axis 0: the argument is a single number",
        ),
        ("sum(x, axis=(0, -2))", "sum(x, axis=(0, -2)): (3, 2): an axis is named twice in (0, -2)"),
        (
            "concatenate([x, s])",
            "concatenate([x, s]): (3, 2), (): all sizes but those on the joined axis must be equal",
        ),
        ("stack([x, v])", "stack([x, v]): (3, 2), (2,): all shapes must be equal"),
        (
            "reshape(x, (4, 2))",
            "reshape(x, (4, 2)): (3, 2): cannot reshape array of size 6 into shape (4,2)",
        ),
        ("x[3]", "x[3]: (3, 2): the index 3 is outside axis 0, which has size 3"),
        ("x[0, 0, 0]", "x[0, 0, 0]: (3, 2): 3 indices for a value of 2 axes"),
        ("x[..., 0, ...]", "x[..., 0, ...]: (3, 2): an index can have only one `...`"),
        ("x[::0]", "x[::0]: (3, 2): the step of a slice cannot be 0"),
        ("x[3:]", "x[3:]: (3, 2): nothing is left: the slice is empty"),
    ],
)
def test_a_mismatch_is_told_at_the_expression_with_its_shapes(text: str, told: str) -> None:
    assert mistakes(f"sin({text})") == [f"GC906 1:5-{5 + len(text)} {told}"]


def test_a_missing_axis_says_which_there_are() -> None:
    assert helps("sum(x, axis=2)") == ["valid: -2 to 1"]
    assert helps("x[-4]") == ["valid: -3 to 2"]
    assert output("expand_dims(x, 2)").shape == (3, 2, 1)
    assert output("stack([x, x], axis=2)").shape == (3, 2, 2)


def test_a_huge_value_is_refused_before_it_is_made() -> None:
    assert "would have 1e+12 entries" in mistakes("broadcast_to(s, (1000000, 1000000))")[0]
    doubled = "y = v\n" + "for i in range(40):\n    y = concatenate([y, y], axis=0)\nsum(y)"
    assert "entries, more than" in mistakes(doubled)[0]
    outer = "y = broadcast_to(s, (100000,))\nsum(y[:, None] * y)"
    assert "would have 1e+10 entries" in mistakes(outer)[0]


@pytest.mark.parametrize(
    "text", ["exp({})", "s - exp({})", "where(s > 0, s, exp({}))", "reshape(s, {shape})"]
)
def test_more_axes_than_numpy_can_broadcast_are_refused(text: str) -> None:
    formula = text.format("[" * 40 + "1" + "]" * 40, shape=(1,) * 40)
    assert "axes, more than the 32 allowed" in mistakes(formula)[0]


def test_the_kind_follows_the_values() -> None:
    built = program("a = n * 2\nb = n / 2\nc = a > b\nd = a * c\nwhere(c, d, b) * s")
    kinds = {node.name: node.kind for node in built.nodes if node.name in ("a", "b", "c", "d")}
    assert kinds == {"a": "int", "b": "float", "c": "bool", "d": "int"}


_MATRICES = array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=3)


def shape_and_kind(
    name: str, shapes: tuple[tuple[int, ...], ...], kind: str, keywords: dict[str, object]
) -> tuple[tuple[int, ...], str] | str:
    """What is inferred, or the code of the mistake."""
    try:
        return infer(TABLE[name], shapes, (kind,) * len(shapes), keywords)
    except Problem as problem:
        return problem.code


@given(_MATRICES, _MATRICES)
def test_products_have_the_shape_that_numpy_gives(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    found = shape_and_kind("matmul", (left, right), "float", {})
    try:
        expected = (np.ones(left) @ np.ones(right)).shape
    except ValueError:
        assert found == "GC906"
    else:
        assert found == (expected, "float")


_UNARY = sorted(name for name, row in TABLE.items() if row.arity == 1 and name != "getitem")


@pytest.mark.parametrize("kind", ["float", "int", "bool"])
@by_family(_UNARY)
def test_every_row_of_one_array_has_a_shape_or_a_reason(name: str, kind: str) -> None:
    row, sample = TABLE[name], SAMPLES[name][0]
    found = shape_and_kind(name, sample.shapes, kind, {**row.keywords, **sample.keywords})
    if isinstance(found, str):
        assert found == "GC906"
        assert kind == "bool" or row.kinds
    else:
        assert found[0] == row.value(*sample.arrays(0), **sample.keywords).shape
        assert found[1] in KINDS.values()
