from __future__ import annotations

import pytest

from .writing import helps, mistakes


@pytest.mark.parametrize(
    ("form", "expected", "help"),
    [
        (
            "{shape: [2], distribution: gauss}",
            "GC903 1:40-45 inputs.x.distribution: unknown distribution: text `gauss`",
            "did you mean `normal`? valid: normal, uniform, log_uniform, integers",
        ),
        (
            "{shape: [2], distributon: normal}",
            "GC903 1:26-37 inputs.x.distributon: unknown key `distributon`",
            "did you mean `distribution`? valid keys: shape, distribution, mean, std, seed, dtype",
        ),
        (
            "{shape: [2], distribution: normal, men: 1}",
            "GC903 1:48-51 inputs.x.men: unknown key `men`",
            "did you mean `mean`? valid keys: shape, distribution, mean, std, seed, dtype",
        ),
        (
            "{shape: [2], low: 0, high: 1}",
            "GC903 1:10-11 inputs.x: `distribution` is missing",
            "with `low` and `high` it is one of: uniform, log_uniform, integers",
        ),
        ("{}", "GC903 1:10-11 inputs.x: the value is missing", "an input is a number"),
        ("~", "GC903 1:13-14 inputs.x: empty is not the value of an input", "an input is a number"),
        (
            "'1e-3'",
            "GC903 1:13-19 inputs.x: text `1e-3` is not the value of an input",
            "write the number without quotes: 1e-3",
        ),
        (
            "'0, .5'",
            "GC903 1:13-20 inputs.x: text `0, .5` is not the value of an input",
            "a list needs brackets: [0, .5]",
        ),
        (
            "1_000",
            "GC903 1:13-18 inputs.x: text `1_000` is not the value of an input",
            "write the number without quotes: 1000",
        ),
        (
            "{value: 1, shape: [2]}",
            "GC903 1:24-29 inputs.x.shape: unknown key `shape`",
            "valid keys: value, kind, dtype, requires_grad, domain",
        ),
        (
            "{shape: 3, distribution: normal}",
            "GC903 1:21-22 inputs.x.shape: `shape` must be a list, not the number `3`",
            "write a list: [3]",
        ),
        (
            "{shape: [0], distribution: normal}",
            "GC903 1:22-23 inputs.x.shape[0]: this must be at least 1",
            "",
        ),
        (
            "{shape: [2], distribution: uniform, low: 2, high: 1}",
            "GC903 1:13-65 inputs.x: `low` must not be above `high`",
            "",
        ),
        (
            "{shape: [2], distribution: uniform, low: 2}",
            "GC903 1:13-56 inputs.x.high: the key `high` is missing",
            "high: The upper end.",
        ),
        (
            "{shape: [2], distribution: log_uniform, low: 0, high: 1}",
            "GC903 1:58-59 inputs.x.low: `low` must be above 0",
            "",
        ),
        (
            "{value: 1, domain: [2, 1]}",
            "GC903 1:32-38 inputs.x.domain: the low bound must be below the high bound",
            "",
        ),
        (
            "{value: 1, domain: [0, all]}",
            "GC903 1:36-39 inputs.x.domain[1]: a bound is a number, `.inf` or `-.inf`",
            "",
        ),
        (
            "{value: 1, domain: [0]}",
            "GC903 1:32-35 inputs.x.domain: `domain` needs at least 2 entries",
            "",
        ),
        (
            "{value: 1, requires_grad: no}",
            "GC903 1:39-41 inputs.x.requires_grad: "
            "`requires_grad` must be true or false, not text `no`",
            "",
        ),
    ],
)
def test_inputs_in_none_of_their_forms(form: str, expected: str, help: str) -> None:
    text = f"inputs: {{x: {form}}}\nmodel: sum(x)"
    assert mistakes(text) == [expected]
    assert helps(text)[0].startswith(help)


def test_a_misspelt_key_is_told_once_and_not_as_missing_too() -> None:
    text = "inputs: {x: 1}\nmodle: x"
    assert mistakes(text) == ["GC903 2:1-6 modle: unknown key `modle`"]
    assert helps(text)[0].startswith("did you mean `model`? valid keys: name, description, inputs")


def test_a_formula_that_yaml_takes_for_something_else() -> None:
    assert mistakes("inputs: {x: 1}\nmodel: 3") == [
        "GC903 2:8-9 model: `model` must be text, not the number `3`"
    ]
    assert mistakes("inputs: {x: 1}\nmodel: [x]") == [
        "GC903 2:8-11 model: `model` must be text, not a list"
    ]
    assert mistakes("inputs: {x: 1}\nmodel:") == [
        "GC903 2:7-8 model: `model` must be text, not empty"
    ]


def test_inputs_must_be_a_mapping_with_something_in_it() -> None:
    assert mistakes("inputs: [x]\nmodel: x") == [
        "GC903 1:9-12 inputs: `inputs` must be a mapping, not a list"
    ]
    assert mistakes("inputs: {}\nmodel: x") == [
        "GC903 1:9-11 inputs: `inputs` needs at least 1 entry"
    ]
