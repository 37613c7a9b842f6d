"""What the keys of a document mean together."""

from __future__ import annotations

import numpy as np
import pytest

from .writing import helps, mistakes, spec


def test_an_input_that_the_formula_does_not_use_is_a_mistake_if_it_is_differentiated() -> None:
    assert mistakes("inputs: {x: 1, y: 2}\nmodel: x ** 2") == [
        "GC903 1:16-17 inputs.y: the output does not depend on `y`"
    ]
    assert helps("inputs: {x: 1, y: 2}\nmodel: x ** 2") == [
        "use `y` in the formula, remove it, or set requires_grad: false"
    ]
    assert spec("inputs: {x: 1, y: {value: 2, requires_grad: false}}\nmodel: x ** 2").wrt == ("x",)
    assert spec("inputs: {x: 1, y: 2}\nwrt: [x]\nmodel: x ** 2").wrt == ("x",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "inputs: {x: [true]}\nmodel: sum(x)",
            ["GC907 1:1-7 inputs: no input is a floating-point number with `requires_grad`"],
        ),
        (
            "inputs: {x: 1}\nmodel: x > 0",
            ["GC907 2:8-13 model: the output has bool values, which have no gradient"],
        ),
        (
            "inputs: {x: 1, y: {value: 2, requires_grad: false}}\nmodel: y ** 2",
            [
                "GC907 2:1-6 model: "
                "the output depends on none of x: there is nothing to differentiate"
            ],
        ),
        (
            "inputs: {x: 1, n: {value: 2, dtype: int64}}\nwrt: [n, x]\nmodel: x * n",
            ["GC907 2:7-8 wrt[0]: `n` holds int values, which have no gradient"],
        ),
    ],
)
def test_there_must_be_something_to_differentiate(text: str, expected: list[str]) -> None:
    assert mistakes(text) == expected


def test_names_mean_one_thing() -> None:
    text = "inputs: {x: 1, lambda: 2, __a: 3, 2b: 4}\nconstants: {x: 1, for: 2}\nmodel: x ** 2"
    assert mistakes(text) == [
        "GC903 1:16-22 inputs.lambda: `lambda` is reserved in formulas: choose another name",
        "GC903 1:27-30 inputs.__a: `__a` is reserved in formulas: choose another name",
        "GC903 1:35-37 inputs.2b: `2b` cannot be a name in a formula",
        "GC903 2:13-14 constants.x: `x` is already an input",
        "GC903 2:19-22 constants.for: `for` is reserved in formulas: choose another name",
    ]


def test_a_gradient_needs_a_point_and_data_does_not() -> None:
    assert mistakes("inputs: {x: [1, .nan]}\nmodel: sum(x)") == [
        "GC903 1:13-22 inputs.x: `x` contains nan, where there is no gradient to check"
    ]
    assert mistakes("inputs: {x: 1}\npoints: [{x: 2}, {x: .nan}]\nmodel: x ** 2") == [
        "GC903 2:22-26 points[1].x: `x` contains nan, where there is no gradient to check"
    ]
    layer = "implementations: {torch: {target: 'torch:sin'}}"
    assert mistakes(f"inputs: {{x: [1, .nan]}}\n{layer}") == [
        "GC903 1:13-22 inputs.x: `x` contains nan, where there is no gradient to check"
    ]
    assert spec(f"inputs: {{x: 1, m: .nan}}\nwrt: [x]\n{layer}").wrt == ("x",)
    assert spec("inputs: {x: -inf}\nmodel: exp(x)").inputs["x"].value == -np.inf
    data = (
        "inputs: {x: 1, m: {value: [-.inf, inf, 'nan'], requires_grad: false}}\nmodel: sum(x * m)"
    )
    assert spec(data).inputs["m"].value.tolist()[:2] == [-np.inf, np.inf]


def test_what_is_no_constant() -> None:
    assert mistakes(
        "inputs: {x: 1}\nconstants: {a: {value: 1}, b: no, c: '1e3', d: [[1], 2]}\n"
        "model: a * b * c * d * x"
    ) == [
        "GC903 2:16-26 constants.a: `a` must be a number, not a mapping",
        "GC903 2:31-33 constants.b: `b` must be a number, not text `no`",
        "GC903 2:38-43 constants.c: `c` must be a number, not text `1e3`",
        "GC903 2:54-55 constants.d[1]: the number `2`, but the first entry is a list",
    ]
    layer = "inputs: {x: 1}\nconstants: {a: [1, 2]}\nimplementations: {torch: 'm:f'}\nmodel: a * x"
    assert mistakes(layer) == ["GC903 2:16-22 constants.a: `a` must be a number, not a list"]


def test_a_constant_may_be_an_array_which_is_data_at_every_point() -> None:
    found = spec(
        "inputs: {x: [1, 2]}\nconstants: {m: [true, false], w: [3, 4], k: 2}\n"
        "points: [{x: [7, 8]}, {x: [5, 6]}]\nmodel: sum(where(m, k * w * x, 0))"
    )
    assert found.wrt == ("x",)
    for point in found.points:
        assert point["w"].value.tolist() == [3.0, 4.0]
        assert point["m"].value.dtype.kind == "b"
        assert not point["w"].requires_grad
    assert mistakes(
        "inputs: {x: 1}\nconstants: {w: [1]}\npoints: [{w: [2]}]\nmodel: sum(w * x)"
    ) == ["GC903 3:11-12 points[0].w: there is no input `w`"]
    assert mistakes("inputs: {x: 1}\nconstants: {w: [1]}\nwrt: [w]\nmodel: sum(w * x)") == [
        "GC903 3:7-8 wrt[0]: there is no input `w`"
    ]


def test_a_shape_alone_is_normal() -> None:
    alone = spec("inputs: {x: {shape: [2, 3], seed: 4, std: 2}}\nmodel: sum(x)").inputs["x"]
    named = "inputs: {x: {shape: [2, 3], seed: 4, std: 2, distribution: normal}}\nmodel: sum(x)"
    assert alone.value.tolist() == spec(named).inputs["x"].value.tolist()
    (mistake,) = mistakes("inputs: {x: {shape: [2], low: 0, high: 1}}\nmodel: sum(x)")
    assert "`distribution` is missing" in mistake
