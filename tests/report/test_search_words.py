"""What a search knows, in words."""

import math
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.search import KINDS, Search, SearchedFix, Witness
from gradcheck_cli.report.search_words import example, searched_words

X = {"x": np.array(90.0)}
WITNESS = Witness(X, "x", math.nan, -8.194013e-40)


def fix(proven: tuple[str, ...], *found: Search) -> SearchedFix:
    return SearchedFix("torch", "float32", "exp(-x)", ("a rule",), proven, found)  # type: ignore[arg-type]


def test_an_example_has_both_numbers_and_digits_that_read_back() -> None:
    assert example(WITNESS, "float32") == "e.g. x = 90: x is nan, truth -8.194013e-40"
    undefined = Witness({"x": np.array([0.1, 2.0])}, "value", math.inf, math.nan)
    assert example(undefined, "float32") == "e.g. x = [0.1, 2]: value is inf, undefined"
    lost = replace(WITNESS, value_lost=True)
    assert example(lost, "float32").startswith(example(WITNESS, "float32") + "; the value is lost")
    assert "GC203" in example(lost, "float32")
    of_value = replace(undefined, value_lost=True)
    assert example(of_value, "float32") == example(undefined, "float32")
    beyond = Witness(X, "value", math.inf, 1.25e40, genuine=True)
    assert example(beyond, "float32") == "e.g. x = 90: value is 1.25e+40, beyond the dtype"


def test_a_fix_says_what_is_proven_and_where_it_fails() -> None:
    assert list(searched_words(fix(KINDS))) == ["proven absent over the same domain: all six kinds"]
    fails = Search("torch", "float32", "gradient-nonfinite", "found", WITNESS)
    assert list(searched_words(fix(("undefined",), fails))) == [
        "proven absent over the same domain: undefined",
        "it fails over the same domain (gradient-nonfinite): "
        "e.g. x = 90: x is nan, truth -8.194013e-40",
    ]


def test_nothing_known_is_no_silence() -> None:
    (words,) = searched_words(fix(()))
    assert words == "over the same domain, no failure was found, but nothing is proven"
