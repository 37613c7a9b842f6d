from __future__ import annotations

import pytest

from gradcheck_cli.domain.spec import Tolerance

from .writing import helps, mistakes, spec

BASE = "inputs: {x: [1, 2], y: 3, n: {value: 1, dtype: int64}}\nmodel: sum(x) * y * n\n"


@pytest.mark.parametrize(
    ("form", "tolerance"),
    [
        ("{ulps: 8}", Tolerance(ulps={"": 8.0})),
        ("{ulps: {float32: 8, float64: 2}}", Tolerance(ulps={"float32": 8.0, "float64": 2.0})),
        ("{rtol: 1e-3, atol: 0}", Tolerance(rtol={"": 1e-3}, atol={"": 0.0})),
        (
            "{rtol: {float16: 1e-2}, atol: 1e-6}",
            Tolerance(rtol={"float16": 1e-2}, atol={"": 1e-6}),
        ),
    ],
)
def test_tolerances(form: str, tolerance: Tolerance) -> None:
    assert spec(f"{BASE}tolerance: {form}").tolerance == tolerance


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tolerance: {rtol: 1}", "GC903 3:12-21 tolerance.atol: the key `atol` is missing"),
        ("tolerance: {ulps: 1, rtol: 1}", "GC903 3:22-26 tolerance.rtol: unknown key `rtol`"),
        ("tolerance: {ulps: -1}", "GC903 3:19-21 tolerance.ulps: `ulps` must be at least 0"),
        ("tolerance: {ulps: .inf}", "GC903 3:19-23 tolerance.ulps: `ulps` must be a finite number"),
        ("tolerance: {ulps: {}}", "GC903 3:19-21 tolerance.ulps: `ulps` needs at least 1 entry"),
        ("tolerance: 3", "GC903 3:12-13 tolerance: `tolerance` must be a mapping, not the number"),
        ("dtypes: [float32, float32]", "GC903 3:19-26 dtypes[1]: `float32` is listed twice"),
        ("dtypes: float32", "GC903 3:9-16 dtypes: `dtypes` must be a list, not text `float32`"),
        ("dtypes: []", "GC903 3:9-11 dtypes: `dtypes` needs at least 1 entry"),
        ("modes: [backward]", "GC903 3:9-17 modes[0]: text `backward` is not valid here"),
        ("engines: [pytorch]", "GC903 3:11-18 engines[0]: there is no engine `pytorch`"),
        ("engines: [eigne]", "GC903 3:11-16 engines[0]: there is no engine `eigne`"),
        ("order: 4", "GC903 3:8-9 order: `order` must be at most 3"),
        ("order: true", "GC903 3:8-12 order: `order` must be a whole number, not the word `true`"),
        ("timeout: 0", "GC903 3:10-11 timeout: `timeout` must be above 0"),
        ("timeout: .inf", "GC903 3:10-14 timeout: `timeout` must be a finite number"),
        ("wrt: [x, z]", "GC903 3:10-11 wrt[1]: there is no input `z`"),
        ("wrt: [x, n]", "GC907 3:10-11 wrt[1]: `n` holds int values, which have no gradient"),
        ("wrt: [x, x]", "GC903 3:10-11 wrt[1]: `x` is listed twice"),
        (
            "allow: [{code: GC999, reason: a}]",
            "GC903 3:16-21 allow[0].code: `GC999` is not the code of a finding",
        ),
        (
            "allow: [{code: GC904, reason: a}]",
            "GC903 3:16-21 allow[0].code: `GC904` is not the code of a finding",
        ),
        ("allow: [{code: GC301}]", "GC903 3:9-22 allow[0].reason: the key `reason` is missing"),
        (
            "allow: [{code: GC301, reason: ' '}]",
            "GC903 3:31-34 allow[0].reason: the reason is empty, or not one line of text",
        ),
        (
            "allow: [{code: GC301, reason: a, input: z}]",
            "GC903 3:41-42 allow[0].input: there is no input `z`",
        ),
        ("name: ''", "GC903 3:7-9 name: `name` must not be empty"),
        ("name: 3", "GC903 3:7-8 name: `name` must be text, not the number `3`"),
        (
            "device: gpu",
            "GC903 3:9-12 device: `device`: a device is cpu, cuda (a GPU), or cuda:1 (the second)",
        ),
        (
            "matmul_precision: half",
            "GC903 3:19-23 matmul_precision: text `half` is not valid here",
        ),
    ],
)
def test_settings_with_mistakes(line: str, expected: str) -> None:
    (found,) = mistakes(BASE + line)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("engines: [pytorch]", "did you mean `torch`?"),
        ("engines: [tensorfow]", "did you mean `tensorflow`?"),
        ("modes: [backward]", "did you mean `reverse`? valid: reverse, forward"),
        (
            "dtypes: [double]",
            "did you mean `float64`? valid: float16, bfloat16, float32, float64",
        ),
        ("dtypes: float32", "write a list: [float32]"),
        ("dtypes: fp16", "write a list: [float16]"),
        ("dtypes: int8", "write a list of float16, bfloat16, float32, float64"),
        ("modes: backward", "write a list: [reverse]"),
        ("engines: torch", "write a list: [torch]"),
        ("timeout: '3'", "write the number without quotes: 3"),
        ("name: 3", 'quotes make it text: "3"'),
        ("allow: [{code: GC311, reason: a}]", "did you mean `GC301`?"),
        ("toleranc: {ulps: 3}", "did you mean `tolerance`? valid keys: name, description"),
        ("wrt: [y, X]", "did you mean `x`? inputs: x, y, n"),
    ],
)
def test_settings_say_what_would_be_right(line: str, help: str) -> None:
    (found,) = helps(BASE + line)
    assert found.startswith(help)


def test_an_engine_of_somebody_else_may_have_any_name() -> None:
    assert spec(BASE + "engines: [my_engine, reference]").engines == ("my_engine", "reference")


TRAIN = "train: {optimizer: {sgd: {lr: 0.1}}, steps: 3, parameters: [%s]}"


def test_training_needs_floating_parameters_and_one_number() -> None:
    assert spec(BASE + TRAIN % "x, y").train is not None
    assert mistakes(BASE + TRAIN % "x, n, z") == [
        "GC907 3:64-65 train.parameters[1]: `n` holds int values, which have no gradient",
        "GC903 3:67-68 train.parameters[2]: there is no input `z`",
    ]
    vector = "inputs: {x: [1, 2], y: 3}\nwrt: [x]\nmodel: x ** 2\n"
    assert mistakes(vector + TRAIN % "x, y") == [
        "GC906 4:1-6 train: training needs one number as its loss, but the output has shape (2,)",
        "GC903 4:64-65 train.parameters[1]: the output does not depend on `y`",
    ]


def test_another_optimizer_is_told_what_there_is() -> None:
    text = BASE + "train: {optimizer: {adam: {lr: 1}}, steps: 1.5, parameters: [x]}"
    assert mistakes(text) == [
        "GC903 3:20-35 train.optimizer.sgd: the key `sgd` is missing",
        "GC903 3:21-25 train.optimizer.adam: unknown key `adam`",
        "GC903 3:44-47 train.steps: `steps` must be a whole number, not the number `1.5`",
    ]
