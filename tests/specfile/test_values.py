from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.specfile import read

from .writing import helps, mistakes, spec

# Numbers that must never change: a spec gives the same values with every release, on every machine.
# They are what NumPy's PCG64 gives for the recipes in gradcheck_cli/specfile/values.py.
GOLDEN = {
    "normal": [1.1782853885777718, -0.81337149501241],
    "uniform": [1.035777648518469, 2.425295217759214],
    "log_uniform": [1.1315310421326488, 137.38610990616803],
    "integers": [1, 0],
}
PARAMETERS = {
    "normal": "mean: 1, std: 2",
    "uniform": "low: -1, high: 3",
    "log_uniform": "low: 1e-3, high: 1e3",
    "integers": "low: -3, high: 3",
}


def drawn(distribution: str, name: str = "x", seed: int = 0, shape: str = "[2]") -> Array:
    """The value of one drawn input; an input z makes the spec whole."""
    recipe = f"{{shape: {shape}, distribution: {distribution}, {PARAMETERS[distribution]}"
    text = f"inputs: {{{name}: {recipe}, seed: {seed}}}, z: 1}}\nwrt: [z]\nmodel: z * sum({name})"
    return spec(text).inputs[name].value


@pytest.mark.parametrize("distribution", sorted(GOLDEN))
def test_the_same_recipe_gives_the_same_numbers_for_ever(distribution: str) -> None:
    # One ulp of slack: log and exp of the platform's libm may differ in the last place.
    np.testing.assert_array_max_ulp(
        drawn(distribution).astype(float), np.array(GOLDEN[distribution], dtype=float), 1
    )


def test_the_recipe_is_the_documented_one() -> None:
    rng = np.random.default_rng([5, *b"weight"])
    expected = 1 + 2 * rng.standard_normal((3, 2))
    np.testing.assert_array_equal(drawn("normal", "weight", 5, "[3, 2]"), expected)


def test_inputs_of_one_seed_have_streams_of_their_own() -> None:
    assert not np.array_equal(drawn("normal", "a"), drawn("normal", "b"))
    assert not np.array_equal(drawn("normal", "a", 0), drawn("normal", "a", 1))


def test_distributions_stay_in_their_ranges() -> None:
    uniform = drawn("uniform", shape="[10000]")
    logs = np.log10(drawn("log_uniform", shape="[10000]"))
    whole = drawn("integers", shape="[10000]")
    assert (uniform.min() >= -1, uniform.max() < 3) == (True, True)
    # Means of 10000 draws: five standard errors are 0.06, 0.09 and 0.1.
    assert abs(uniform.mean() - 1) < 0.06
    assert abs(logs.mean()) < 0.09
    assert (logs.min() >= -3, logs.max() <= 3) == (True, True)
    assert sorted(set(whole.tolist())) == [-3, -2, -1, 0, 1, 2, 3]
    assert whole.dtype == np.int64


def test_the_seed_of_the_run_is_for_recipes_without_one() -> None:
    text = "inputs: {x: {shape: [2], distribution: normal}}\nmodel: sum(x)"
    values = [read("a", text, seed=seed)[0][0].inputs["x"] for seed in (0, 0, 1)]
    assert [value.seed for value in values] == [0, 0, 1]
    np.testing.assert_array_equal(values[0].value, values[1].value)
    assert not np.array_equal(values[0].value, values[2].value)


def test_values_are_floating_unless_they_are_logical_or_say_otherwise() -> None:
    found = spec(
        """\
        inputs:
          x: [1, 2]
          b: [true, false]
          n: {value: [1, 2.0], dtype: int64}
          h: {value: 0.1, dtype: float16}
          f: {shape: [2], distribution: integers, low: 0, high: 9, dtype: float64}
        wrt: [x]
        model: sum(x)
        """
    ).inputs
    assert [found[name].value.dtype.name for name in "xbnhf"] == [
        "float64",
        "bool",
        "int64",
        "float64",
        "float64",
    ]
    assert float(found["h"].value) == float(np.float16(0.1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[]", "inputs.x: an empty list has no numbers"),
        ("[[1], []]", "inputs.x[1]: a ragged list: 0 entries here, but 1 in the first one"),
        ("[[1, 2], 3]", "inputs.x[1]: the number `3`, but the first entry is a list"),
        ("[1, [2]]", "inputs.x[1]: a list, but the first entry is a number"),
        ("[1, two]", "inputs.x[1]: text `two` is not a number"),
        ("[1, ~]", "inputs.x[1]: empty is not a number"),
        ("[1, {a: 1}]", "inputs.x[1]: a mapping, but the first entry is a number"),
        ("[1, true]", "inputs.x: true and false are mixed with numbers"),
        ("{value: [1.5], dtype: int64}", "inputs.x.value: 1.5 is not a whole number, as dtype"),
        ("{value: [1e30], dtype: int64}", "inputs.x.value: a number is too large for dtype int64"),
        ("{value: [1], dtype: bool}", "inputs.x.value: dtype bool needs true and false"),
        ("{value: true, dtype: float32}", "inputs.x.value: true and false are not numbers of"),
        ("{value: 7e4, dtype: float16}", "inputs.x.value: 70000 is too large for float16, whose"),
        (
            "{shape: [2], distribution: normal, dtype: int64}",
            "inputs.x.dtype: the distribution normal does not give numbers of dtype int64",
        ),
        (
            "{shape: [1000000000], distribution: normal}",
            "inputs.x.shape: 1,000,000,000 entries exceed the limit of 10,000,000 for an input",
        ),
        ("[" * 17 + "1" + "]" * 17, "inputs.x: lists are nested 17 deep; an input has at most 16"),
    ],
)
def test_values_that_are_no_array(value: str, expected: str) -> None:
    (found,) = mistakes(f"inputs: {{x: {value}}}\nmodel: sum(x)")
    assert f" {expected}" in found


def test_of_many_bad_entries_five_are_told() -> None:
    found = mistakes(f"inputs: {{x: [{', '.join(['a'] * 20)}]}}\nmodel: sum(x)")
    assert len(found) == 6
    assert found[0].endswith("15 more entries are not numbers")


def test_all_inputs_together_have_a_limit() -> None:
    names = [f"x{i}" for i in range(3)]
    recipe = "{shape: [9000000], distribution: uniform, low: 0, high: 1}"
    inputs = ", ".join(f"{name}: {recipe}" for name in names)
    (found,) = mistakes(f"inputs: {{{inputs}}}\nmodel: sum(x0 + x1 + x2)")
    assert found.endswith("the inputs of this spec have more than 20,000,000 entries in total")


@pytest.mark.parametrize(
    ("text", "sign"), [("1e999", ""), ("-1e999", "-"), ("1" + "0" * 400, ""), ("2e400+1j", "")]
)
@pytest.mark.parametrize("form", ["{}", "[1.0, {}]", "{{value: {}}}"])
def test_a_number_that_no_format_holds_says_how_infinity_is_written(
    form: str, text: str, sign: str
) -> None:
    written = f"inputs: {{x: {form.format(text)}}}\nmodel: sum(x)"
    (found,) = mistakes(written)
    assert f"text `{text[:30]}" in found
    assert helps(written)[0].endswith(f"infinity is written {sign}.inf")


def test_the_words_for_infinity_and_nan() -> None:
    text = (
        "inputs: {x: 1, m: {value: [.inf, -inf, 'nan', +inf], requires_grad: false}}\nmodel: x * 2"
    )
    found = spec(text).inputs["m"].value
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.inf])
