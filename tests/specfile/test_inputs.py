from __future__ import annotations

import numpy as np
import pytest

from .writing import helps, mistakes, spec


def test_a_point_keeps_what_the_input_says() -> None:
    found = spec(
        """\
        inputs:
          x: {value: 1, dtype: float16, domain: [0, 100]}
          n: {value: [1, 2], dtype: int64}
        points:
          - {x: 0.1, n: [3, 4]}
          - x: {value: 2}
        model: x * sum(n)
        """
    )
    first, second = found.points
    assert float(first["x"].value) == float(np.float16(0.1))
    assert (first["x"].high, second["x"].high) == (100, 100)
    assert first["n"].value.tolist() == [3, 4]
    assert second["n"].value.tolist() == [1, 2]
    assert not second["n"].requires_grad


def test_points_draw_numbers_of_their_own() -> None:
    recipe = "{shape: [3], distribution: normal, seed: 1}"
    points = spec(
        f"inputs: {{x: {recipe}}}\npoints: [x: {recipe}, x: {recipe}]\nmodel: sum(x)"
    ).points
    assert not np.array_equal(points[0]["x"].value, points[1]["x"].value)
    rng = np.random.default_rng([1, *b"x", 2])
    np.testing.assert_array_equal(points[1]["x"].value, rng.standard_normal(3))


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("{xx: 1}", "GC903 2:11-13 points[0].xx: there is no input `xx`"),
        (
            "{x: [1]}",
            "GC903 2:14-17 points[0].x: `x` has shape (1,) at this point, but () under `inputs`",
        ),
        ("{x: true}", "GC903 2:14-18 points[0].x: true and false are not numbers of dtype float64"),
        ("{x: 11}", "GC903 2:14-16 points[0].x: x = 11 is outside the domain [0, 10]"),
        (
            "{x: {value: 1, domain: [0, 2]}}",
            "GC903 2:25-31 points[0].x.domain: "
            "`domain` belongs to the input itself, under `inputs`: it is the same at every point",
        ),
        ("{x: no}", "GC903 2:14-16 points[0].x: text `no` is not the value of an input"),
        ("{}", "GC903 2:10-12 points[0]: this needs at least 1 entry"),
    ],
)
def test_points_with_mistakes(point: str, expected: str) -> None:
    text = f"inputs: {{x: {{value: 1, domain: [0, 10]}}}}\npoints: [{point}]\nmodel: x ** 2"
    assert mistakes(text) == [expected]


def test_an_unknown_name_in_a_point_is_guessed() -> None:
    assert helps("inputs: {weight: 1}\npoints: [{wieght: 2}]\nmodel: weight ** 2") == [
        "did you mean `weight`? inputs: weight"
    ]


def test_values_lie_in_their_domain_ends_included() -> None:
    assert spec("inputs: {x: {value: [0, 1], domain: [0, 1]}}\nmodel: sum(x)").inputs["x"].low == 0
    assert mistakes("inputs: {x: {value: [[0], [-1]], domain: [0, inf]}}\nmodel: sum(x)") == [
        "GC903 1:13-51 inputs.x: x[1][0] = -1 is outside the domain [0, inf]"
    ]
    drawn = "{shape: [50], distribution: normal, seed: 0, domain: [0, inf]}"
    assert helps(f"inputs: {{x: {drawn}}}\nmodel: sum(x)") == [
        "choose a distribution that stays inside"
    ]


def test_an_integer_has_no_gradient_to_ask_for() -> None:
    text = "inputs: {x: 1, n: {value: 2, dtype: int64, requires_grad: true}}\nmodel: x * n"
    assert mistakes(text) == [
        "GC903 1:59-63 inputs.n.requires_grad: `n` holds int values, which have no gradient"
    ]


LAYER = "implementations: {torch: torch.fft:fft}"


def test_complex_numbers_are_pairs_of_their_parts() -> None:
    inputs = spec(f"inputs: {{z: [1+2j, 3, -.5j], x: 2.0}}\n{LAYER}").inputs
    assert inputs["z"].is_complex
    assert inputs["z"].value.tolist() == [[1, 2], [3, 0], [0, -0.5]]
    assert not inputs["x"].is_complex


def test_complex_dtypes_make_inputs_complex_that_have_none_of_their_own() -> None:
    found = spec(
        f"""\
        inputs:
          z: {{shape: [2], seed: 1}}
          w: 0.1
          x: {{value: 2.0, dtype: float64}}
          n: [1, 2]
          mask: [true, false]
        points: [{{w: 1e-3j}}]
        dtypes: [complex64]
        {LAYER}
        """
    )
    inputs = found.inputs
    rng = np.random.default_rng([1, *b"z"])
    parts = [rng.standard_normal(2), rng.standard_normal(2)]
    np.testing.assert_array_equal(inputs["z"].value, np.stack(parts, axis=-1))
    assert inputs["w"].value.tolist() == [0, 1e-3]
    assert {name for name, one in inputs.items() if one.is_complex} == {"z", "w", "n"}
    assert inputs["x"].value.shape == ()
    assert found.dtypes == ("complex64",)


def test_one_complex_number_by_a_recipe() -> None:
    inputs = spec(f"inputs: {{z: {{shape: [], dtype: complex64}}}}\n{LAYER}").inputs
    assert inputs["z"].is_complex
    assert inputs["z"].value.shape == (2,)


def test_a_complex_dtype_rounds_both_parts() -> None:
    value = spec(f"inputs: {{z: {{value: 0.1+0.3j, dtype: complex64}}}}\n{LAYER}").inputs["z"].value
    assert value.tolist() == [float(np.float32(0.1)), float(np.float32(0.3))]


FORMULA = "model: sum(z)"
REAL = "formulas compute with real numbers, but `z` is complex"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"inputs: {{z: [1+2j]}}\n{FORMULA}", f"GC903 1:10-11 inputs.z: {REAL}"),
        (f"inputs: {{z: [1]}}\ndtypes: [complex64]\n{FORMULA}", f"GC903 2:1-7 dtypes: {REAL}"),
        (
            f"inputs: {{z: {{value: 1j, dtype: float32}}}}\n{LAYER}",
            "GC903 1:21-23 inputs.z.value: 1j is complex, and no number of dtype float32",
        ),
        (
            f"inputs: {{z: {{value: 1j, domain: [0, 1]}}}}\n{LAYER}",
            "GC903 1:25-31 inputs.z.domain: `domain` is for real numbers, but `z` is complex",
        ),
        (
            f"inputs: {{z: 1.0}}\npoints: [{{z: 1j}}]\n{LAYER}",
            "GC903 2:14-16 points[0].z: 1j is complex, and no number of dtype float64",
        ),
        (
            f"inputs: {{z: 1j}}\ndtypes: [complex64, float32]\n{LAYER}",
            "GC903 2:9-29 dtypes: `dtypes` mixes real and complex dtypes",
        ),
    ],
)
def test_complex_numbers_where_there_are_none(text: str, expected: str) -> None:
    assert mistakes(text) == [expected]


def test_how_a_complex_number_is_written() -> None:
    text = f"inputs: {{z: [1+2i, 1 - 2j]}}\n{LAYER}"
    assert helps(text) == [f"a complex number is written {word}" for word in ("1+2j", "1-2j")]
