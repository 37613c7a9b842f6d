"""Files of C++ that show a finding with Eigen alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.cli.repro import NotShown, write
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry, Finding, Indexing
from gradcheck_cli.report.repro.layer_code import NoScript
from gradcheck_cli.report.repro.script import script
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING

FOUND = replace(FINDING, engine="eigen", dtype="float32", mode="forward")
LAYER = """
#pragma once
// The derivative by `slope` is lost.
template <typename T>
Eigen::Matrix<T, Eigen::Dynamic, 1> layer(
    const Eigen::Matrix<T, Eigen::Dynamic, 1>& x, const T& slope) {
  return x.unaryExpr([=](const T& z) -> T { return T(slope.value()) * z; });
}
"""


def kept(found: Finding, path: Path, formula: str, **inputs: object) -> str:
    write(found, spec_of(formula, inputs), path, seed=0)
    return path.read_text("utf-8")


def test_a_formula_is_one_file_with_what_it_needs(tmp_path: Path) -> None:
    """It is kept only if it ran and showed the number."""
    entries = (Entry((0, 0), computed=float("nan"), truth=0.0),)
    found = replace(FOUND, code="GC201", entries=entries, indexing=Indexing(1))
    text = kept(found, tmp_path / "repro.cpp", "1 / exp(x)", x=[100.0, 1.0])
    assert "gradcheck" not in text
    assert '#include "' not in text
    assert "each(" in text
    assert "softmax(" not in text  # which it does not call


def test_a_right_derivative_is_not_kept(tmp_path: Path) -> None:
    entries = (Entry((1,), computed=0.0, truth=12.0),)
    with pytest.raises(NotShown, match="computed: 12"):
        kept(replace(FOUND, entries=entries), tmp_path / "repro.cpp", "sum(x ** 3)", x=[1.0, 2.0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_an_output_is_lost_where_any_number_of_it_is(tmp_path: Path) -> None:
    message = "the output is inf"
    found = replace(FOUND, code="GC203", input=None, entries=(), indexing=None, message=message)
    assert "isfinite" in kept(found, tmp_path / "repro.cpp", "exp(x)", x=[1.0, 1000.0])


@pytest.mark.exhaustive
def test_a_function_of_the_user_stands_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "layer.hpp").write_text(LAYER)
    spec = spec_of("slope * x", {"x": [3.0, -1.0], "slope": 0.5})
    layer = Implementation("eigen", "layer.hpp:layer", str(tmp_path), Span(1, 1, 1, 2))
    entries = (Entry((1,), computed=0.0, truth=-1.0),)
    found = replace(FOUND, input="slope", entries=entries, indexing=Indexing(1))
    path = tmp_path / "repro.cpp"
    write(found, replace(spec, implementations=(layer,)), path, seed=0)
    text = path.read_text("utf-8")
    assert "The derivative by `slope` is lost." in text
    assert str(tmp_path) not in text


def test_what_has_no_number_has_no_file() -> None:
    spec = spec_of("exp(x)", {"x": np.float64(1.0)})
    with pytest.raises(NoScript, match="no number"):
        script(replace(FOUND, code="GC701", entries=()), spec)
    product = replace(FOUND, indexing=Indexing(0, directions=True))
    with pytest.raises(NoScript, match="random directions"):
        script(product, spec)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("truth", "is_shown"), [(27.0, False), (-27.0, True)])
def test_a_product_of_all_outputs_lists_its_numbers(
    truth: float, is_shown: bool, tmp_path: Path
) -> None:
    """By x[1] it is 2 * 12, of the cube, and 3 * 1."""
    found = replace(
        FOUND,
        entries=(Entry((1, 1), computed=27.0, truth=truth),),
        indexing=Indexing(1, cotangents=True),
        cotangents=((1.0, 1.0, 1.0, 1.0), (9.0, 2.0, 0.25, 3.0)),
    )
    path, formula = tmp_path / "repro.cpp", "concat([x ** 3, 3 * x / 3])"
    if is_shown:
        assert "y_bar" in kept(found, path, formula, x=[1.0, 2.0])
        return
    with pytest.raises(NotShown, match="computed: 27"):
        kept(found, path, formula, x=[1.0, 2.0])
