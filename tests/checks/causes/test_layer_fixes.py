"""What to write instead in a layer, as code of its framework at the user's line."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.causes import layer_fixes
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.report import Finding, Fix
from gradcheck_cli.engines.layer.rewriting import NotRewritable
from tests.checks import layers_to_fix as layers
from tests.checks.making import layer_problem
from tests.conftest import loaded

pytestmark = pytest.mark.usefixtures("one_thread")

FAR = [-30.0, 200.0, 50.0]


def findings(layer: Any, x: Any, engine: str = "torch", **settings: Any) -> tuple[Finding, ...]:
    settings = {"dtype": "float32", "modes": ("reverse",), **settings}
    problem = layer_problem(layer, {"x": np.array(x)}, engine=engine, **settings)
    return examine(loaded(engine), problem).findings


def fixes(layer: Any, x: Any, engine: str = "torch", **settings: Any) -> list[Fix]:
    return [one.fix for one in findings(layer, x, engine, **settings) if one.fix is not None]


def line_of(text: str) -> int:
    """Where a text first stands in the file of the layers."""
    lines = inspect.getsource(layers).splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("engine", "layer", "before", "after"),
    [
        ("torch", layers.torch_softplus, "torch.log(1 + grown)", "torch.nn.functional.softplus(x)"),
        ("jax", layers.jax_softplus, "jnp.log(1 + jnp.exp(x))", "jax.nn.softplus(x)"),
        (
            "tensorflow",
            layers.tensorflow_softplus,
            "tf.math.log(1 + tf.exp(x))",
            "tf.nn.softplus(x)",
        ),
        ("numpy", layers.NumpySoftplus, "np.log(1 + np.exp(x))", "np.logaddexp(0, x)"),
    ],
)
def test_a_fix_is_code_of_the_framework_in_place_of_the_users(
    engine: str, layer: Any, before: str, after: str
) -> None:
    found = fixes(layer, FAR, engine)
    assert found
    for fix in found:
        assert (fix.before, fix.after) == (before, after)
        assert fix.place is not None
        assert fix.place.source.path.endswith("layers_to_fix.py")
        assert fix.place.span.line == line_of(before)
        assert fix.right >= fix.points - 1


@pytest.mark.parametrize(
    ("layer", "x", "before", "after"),
    [
        # a name that is another one than the spec's input, and one of a value on the way
        (
            layers.torch_entropy,
            [-200.0, 0.3, 0.1],
            "torch.log(p)",
            "torch.log_softmax(logits, dim=-1)",
        ),
        # the branch that runs
        (layers.torch_branch, [100.0, 60.0], "1 / torch.exp(x)", "torch.exp(-x)"),
        # every turn of a loop, every call of a function
        (
            layers.torch_loop,
            FAR,
            "torch.log(1 + torch.exp(part))",
            "torch.nn.functional.softplus(part)",
        ),
        (layers.torch_twice, [100.0, 30.0], "1 / z.exp()", "torch.exp(-z)"),
    ],
)
def test_a_fix_is_in_the_names_that_stand_there(
    layer: Any, x: Any, before: str, after: str
) -> None:
    name = next(iter(inspect.signature(layer).parameters))
    problem = layer_problem(layer, {name: np.array(x)}, dtype="float32", modes=("reverse",))
    found = [one.fix for one in examine(loaded("torch"), problem).findings if one.fix]
    assert {(fix.before, fix.after) for fix in found} == {(before, after)}


def test_a_number_is_as_short_as_the_dtype_allows() -> None:
    found = fixes(layers.torch_roots, [2000.0, 3000.0])
    assert {fix.after.partition(" / ")[0] for fix in found} == {"0.1"}


def test_a_fix_of_a_compiled_layer_is_compiled_anew() -> None:
    found = fixes(layers.jax_softplus, FAR, "jax-jit")
    assert found
    for fix in found:
        assert fix.before == "jnp.log(1 + jnp.exp(x))"
        assert fix.right >= fix.points - 1


def test_the_number_of_a_fix_is_that_of_the_changed_layer() -> None:
    found = findings(layers.torch_branch, [100.0, 60.0])
    assert {finding.code for finding in found} == {"GC201", "GC302"}
    for finding in found:
        assert finding.fix is not None
        assert finding.fix.ulps_after is not None
        assert finding.fix.ulps_after < 4
        assert finding.fix.value == pytest.approx(finding.entries[0].truth, rel=1e-6)


def test_the_layer_is_as_before_afterwards() -> None:
    code = layers.torch_softplus.__code__
    assert fixes(layers.torch_softplus, FAR)
    assert layers.torch_softplus.__code__ is code


def test_where_the_backward_is_the_users_no_other_forward_helps() -> None:
    (finding,) = findings(layers.NumpyBackward, FAR, "numpy")
    assert finding.code == "GC201"
    assert finding.fix is None
    assert finding.no_fix


def test_without_code_to_change_a_fix_is_a_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(place: Any) -> Any:
        raise NotRewritable("no source")

    monkeypatch.setattr(layer_fixes, "Expression", none)
    for fix in fixes(layers.torch_softplus, FAR):
        assert (fix.after, fix.place) == ("softplus(x)", None)
        assert "torch.nn.functional.softplus(x)" in fix.code["torch"]


def test_a_fix_that_is_wrong_in_the_layer_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may stand for another number than it seems to."""
    real = layer_fixes.reworded

    def wrong(*args: Any) -> Any:
        found = real(*args)
        assert found is not None
        code = layer_fixes.replace(found.code, expression=f"({found.code.expression} + 1e-3 * x)")
        return layer_fixes.replace(found, code=code)

    monkeypatch.setattr(layer_fixes, "reworded", wrong)
    found = findings(layers.torch_softplus, FAR)
    assert found
    assert all(one.fix is None and one.no_fix for one in found)


def test_a_layer_that_does_not_run_while_it_is_watched_has_a_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seen(*_: Any) -> Any:
        raise RuntimeError("not with other code")  # as the user's layer may

    monkeypatch.setattr(layer_fixes.Expression, "collecting", seen)
    found = findings(layers.torch_softplus, FAR)
    assert "GC706" not in {finding.code for finding in found}
    assert {one.fix.after for one in found if one.fix} == {"softplus(x)"}


def test_a_layer_that_is_right_has_none() -> None:
    assert not findings(layers.torch_softplus, [0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("layer", "before", "after"),
    [
        (
            layers.torch_modulus,
            "torch.sqrt((z * z.conj()).real)",
            "torch.hypot(z.real, z.imag)",
        ),
        (
            layers.torch_log_power,
            "torch.log(turned.real**2 + turned.imag**2)",
            "2 * torch.log(torch.hypot(z.imag, z.real))",
        ),
        (
            layers.torch_decibels,
            "torch.log10(torch.fft.fft(z).abs() ** 2)",
            "2 * torch.log10(torch.fft.fft(z).abs())",
        ),
    ],
)
def test_what_overflows_with_complex_numbers_has_a_fix(layer: Any, before: str, after: str) -> None:
    found = fixes(layer, [3e25 + 1e25j, 1 + 2j])
    assert {(fix.before, fix.after) for fix in found} == {(before, after)}


@pytest.mark.parametrize(
    ("layer", "x", "dtype", "replaced"),
    [
        (layers.torch_sinc_of_size, [0.0, 0.5, 1.0, 2.0], "float64", "where(torch.abs(x) < 1e-06"),
        (layers.torch_softplus_of_capped, [-30.0, 200.0, 50.0], "float32", "softplus(capped)"),
    ],
)
def test_a_variable_with_equal_numbers_only_here_does_not_stand_for_an_expression(
    layer: Any, x: list[float], dtype: str, replaced: str
) -> None:
    """`x` equals `abs(x)`, and what is cut at 500, at all of these points."""
    found = fixes(layer, x, dtype=dtype)
    assert found
    for fix in found:
        assert replaced in fix.after
