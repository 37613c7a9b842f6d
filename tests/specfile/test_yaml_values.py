from __future__ import annotations

import math

import pytest

from gradcheck_cli.specfile.yaml_values import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("+3", 3),
        ("010", 10),
        ("0o17", 15),
        ("0xfF", 255),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0" * 500 + "7", 7.0),
    ],
)
def test_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(
    "text",
    ["no", "yes", "on", "off", "y", "NO", "1_000", "1:30", "1e", "0b1", "-", "2001-01-01", "inf"],
)
def test_what_yaml_1_1_took_for_something_else_is_text(text: str) -> None:
    assert resolve(text) == text


@pytest.mark.parametrize(
    "text", ["1e999", "-1e999", "+.5E400", "9" * 500, "1" + "0" * 309, "0x" + "F" * 256]
)
def test_a_number_that_no_format_holds_is_none(text: str) -> None:
    """It is not infinity, which is written `.inf`."""
    assert resolve(text) == text


@pytest.mark.parametrize("text", ["1.7976931348623157e308", "1" + "0" * 308, "0x" + "F" * 255])
def test_the_largest_numbers_are_numbers(text: str) -> None:
    assert float(resolve(text)) < math.inf


def test_nan_is_a_number() -> None:
    assert math.isnan(resolve(".nan"))
