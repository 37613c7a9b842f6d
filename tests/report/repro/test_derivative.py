"""Scripts that show one number of a derivative, or of an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.report import Entry, Indexing
from gradcheck_cli.domain.spec import Input, Spec
from gradcheck_cli.report.repro.languages import REVERSE_AGAIN
from gradcheck_cli.report.repro.script import script
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING, PLANTED, SPEC, ran

HESSIAN = {"index": (1, 1), "truth": 12.0}
VECTORS = ((3.0, 4.0), (1.0, -1.0))
MIXED = {"index": (1,), "truth": 12.0}


@pytest.mark.parametrize(
    "engine",
    ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(
    ("mode", "name", "entry"),
    [
        ("reverse", "x", {}),
        ("forward", "x", {}),
        ("reverse-over-reverse", "x.x", HESSIAN),
        ("forward-over-reverse", "x.y", MIXED),
        ("reverse-over-forward", "y.x", MIXED),
        ("forward-over-forward", "x.x", HESSIAN),
    ],
)
def test_a_script_computes_the_number_of_its_finding(
    engine: str,
    mode: str,
    name: str,
    entry: Mapping[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Here the frameworks are right: each script finds the truth, and no error to report."""
    (own,) = FINDING.entries
    found = replace(FINDING, engine=engine, mode=mode, input=name, entries=(replace(own, **entry),))
    assert ran(found, SPEC, capsys) == (0, "12.0")


@pytest.mark.parametrize(
    "engine",
    ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(
    ("mode", "changes", "index", "truth"),
    [
        ("reverse-over-reverse", {"columns": VECTORS}, (1, 0), 48.0),
        ("forward-over-reverse", {"columns": VECTORS}, (1, 0), 48.0),
        ("reverse-over-forward", {"columns": VECTORS}, (0, 1), 6.0),
        ("forward-over-forward", {"firsts": VECTORS, "columns": VECTORS}, (0, 1), -30.0),
        ("forward-over-forward", {"firsts": VECTORS, "columns": VECTORS}, (1, 1), 18.0),
        ("forward", {"columns": VECTORS, "indexing": Indexing(0, directions=True)}, (1,), -9.0),
    ],
)
def test_a_product_with_directions_has_them_in_its_script(
    engine: str,
    mode: str,
    changes: Mapping[str, Any],
    index: tuple[int, ...],
    truth: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The last two of the second order count directions, as many as there are entries."""
    name = "x.x" if "over" in mode else "x"
    entries = (Entry(index=index, computed=0.0, truth=truth),)
    found = replace(FINDING, engine=engine, mode=mode, input=name, entries=entries, **changes)
    assert ran(found, SPEC, capsys) == (0, str(truth))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_an_entry_of_the_whole_jacobian_has_no_directions(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding has the directions of its run, which may be those of another mode."""
    entries = (Entry(index=(3, 3), computed=0.0, truth=48.0),)
    how = Indexing(1)
    found = replace(FINDING, mode=mode, entries=entries, columns=VECTORS, indexing=how)
    spec = spec_of("x ** 3", {"x": [1.0, 2.0, 3.0, 4.0]})
    assert ran(found, spec, capsys) == (0, "48.0")


@pytest.mark.parametrize("engine", ["torch", "jax"])
def test_a_product_with_cotangents_has_that_of_its_entry(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = (Entry(index=(1, 0), computed=0.0, truth=3.0),)
    how = Indexing(1, cotangents=True)
    found = replace(FINDING, engine=engine, entries=entries, cotangents=VECTORS, indexing=how)
    assert ran(found, spec_of("x ** 3", {"x": [1.0, 2.0]}), capsys) == (0, "3.0")


def test_a_wrong_number_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    (own,) = FINDING.entries
    found = replace(FINDING, entries=(replace(own, computed=12.0, truth=0.0),))
    assert ran(found, SPEC, capsys) == (1, "12.0")


def test_an_output_that_is_not_finite_needs_no_truth(capsys: pytest.CaptureFixture[str]) -> None:
    lost = (Entry(index=(), computed=float("inf")),)
    found = replace(FINDING, code="GC203", input=None, entries=lost, truth_source="undecided")
    assert ran(found, spec_of("exp(x)", {"x": 1000.0}), capsys) == (1, "inf")
    assert ran(found, spec_of("exp(x)", {"x": 0.0}), capsys) == (0, "1.0")


def test_an_infinite_gradient_where_there_is_no_derivative(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = (Entry(index=(), computed=float("inf")),)
    found = replace(FINDING, code="GC202", entries=lost, truth_source="undecided")
    assert ran(found, spec_of("sqrt(x)", {"x": 0.0}), capsys) == (1, "inf")
    assert ran(found, spec_of("sqrt(x)", {"x": 0.25}), capsys) == (0, "1.0")


@pytest.mark.parametrize("engine", ["torch-compile", "jax-jit", "tensorflow-xla"])
def test_a_compiled_number_stands_beside_the_one_without_the_compiler(engine: str) -> None:
    text = script(replace(FINDING, code="GC108", engine=engine), SPEC)
    assert "uncompiled = " in text
    assert 'print("without the compiler:", uncompiled)' in text
    assert "uncompiled" not in script(replace(FINDING, engine=engine), SPEC)


@pytest.mark.parametrize(
    ("engine", "outer"), [("torch", "reverse"), ("jax", "reverse"), ("jax", "forward")]
)
def test_a_third_derivative_begins_along_a_direction(
    engine: str, outer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Along (1, 2; 0.5) the derivative of y sum(x^3) is 3 y (x0^2 + 2 x1^2) + sum(x^3) / 2."""
    found = replace(
        FINDING,
        engine=engine,
        mode=f"{outer}-over-reverse-over-reverse",
        input="x.x",
        entries=(Entry(index=(1, 1), computed=0.0, truth=18.0),),
        along=(("x", (1.0, 2.0)), ("y", (0.5,))),
    )
    assert ran(found, SPEC, capsys) == (0, "18.0")


STATED = """
def product_vjp(y_bar, x, w):
    return 3 * y_bar * w, y_bar * x

def product_jvp(x_dot, w_dot, x, w):
    return 5 * x_dot * w + w_dot * x

@custom_gradient(product_vjp, product_jvp)
def product(x, w):
    return x * w

sum(product(x, w))
"""


@pytest.mark.parametrize("engine", ["torch", "jax"])
@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [("reverse", "x", "6.0"), ("forward", "x", "10.0"), ("forward-over-reverse", "x.w", "3.0")],
)
def test_each_mode_follows_the_rule_that_was_stated_for_it(
    engine: str, mode: str, name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    index = (1, 1) if "." in name else (1,)
    entries = (Entry(index=index, computed=float(expected), truth=1.0),)
    found = replace(FINDING, engine=engine, mode=mode, input=name, entries=entries)
    spec = spec_of(STATED, {"x": [1.0, 2.0], "w": [1.0, 2.0]})
    assert ran(found, spec, capsys) == (1, expected)


def test_reverse_over_reverse_of_a_layer_gives_the_gradient_of_the_columns() -> None:
    (own,) = FINDING.entries
    entries = (replace(own, index=(0, 1)),)
    found = replace(FINDING, mode="reverse-over-reverse", input="x.x", entries=entries)
    layer = Implementation("torch", "layers.py:Exp", str(PLANTED), Span(1, 1, 1, 2))
    spec = spec_of("sum(x ** 3)", {"x": [1.0, 2.0]})
    inner, outer = "by_reverse(value, 'x', (0,))", "'x', (1,)"
    assert f"by_reverse({inner}, {outer})" in script(found, spec)
    inner, outer = "by_reverse(value, 'x', (1,))", "'x', (0,)"
    path = str(PLANTED / "layers.py")
    of_layer = replace(spec, implementations=(replace(layer, target=f"{path}:Exp"),))
    assert f"by_reverse({inner}, {outer})" in script(found, of_layer)


def test_a_cotangent_weighs_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    (own,) = FINDING.entries
    found = replace(
        FINDING,
        mode="reverse-over-reverse",
        input="x.x",
        entries=(replace(own, **HESSIAN),),
        cotangents=((5.0, 1.0),),
    )
    assert ran(found, spec_of("x ** 3", {"x": [1.0, 2.0]}), capsys) == (0, "12.0")


@pytest.mark.parametrize(
    "engine", ["torch", "jax", pytest.param("tensorflow", marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize(
    ("mode", "index", "expected"),
    [
        ("reverse", (1, 0), "12.0"),
        ("forward", (0, 1), "-12.0"),
        ("reverse-over-reverse", (0, 1), "-12.0"),
        ("forward-over-reverse", (0, 0), "6.0"),
        ("reverse-over-forward", (1, 0), "-12.0"),
    ],
)
def test_the_derivatives_of_complex_numbers_are_those_of_their_parts(
    engine: str,
    mode: str,
    index: tuple[int, int],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """z ** 3 at 1+2j: 3 z ** 2 is -9+12j, and 6 z is 6+12j."""
    path = tmp_path / "layers.py"
    path.write_text("def cube(z):\n    return z * z * z\n")
    (own,) = FINDING.entries
    found = replace(
        FINDING,
        engine=engine,
        dtype="complex128",
        mode=mode,
        input="z" if mode in ("reverse", "forward") else "z.z",
        entries=(replace(own, index=index, truth=float(expected)),),
        indexing=Indexing(1, complex_output=True, complex_input=True),
        cotangents=((1.0, 0.0),) if "over" in mode else (),
    )
    assert ran(found, complex_spec(engine, f"{path}:cube", z=[1.0, 2.0]), capsys) == (0, expected)


@pytest.mark.parametrize(
    "engine", ["torch", "jax", "numpy", pytest.param("tensorflow", marks=pytest.mark.exhaustive)]
)
def test_a_conjugate_that_is_missing_is_shown_whatever_a_gradient_is_by_convention(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = {"torch": "layers.py", "numpy": "numpy_layers.py"}.get(engine, f"{engine}_layers.py")
    name = "Mixer" if engine in ("torch", "numpy") else "mixer"
    (own,) = FINDING.entries
    found = replace(
        FINDING,
        engine=engine,
        dtype="complex128",
        input="signal",
        entries=(replace(own, index=(0, 1), truth=0.75),),
        indexing=Indexing(1, complex_output=True, complex_input=True),
    )
    spec = complex_spec(engine, f"{PLANTED / file}:{name}", signal=[1.5, 0.5], carrier=[0.5, -0.75])
    assert ran(found, spec, capsys) == (1, "-0.75")


def complex_spec(engine: str, target: str, **numbers: list[float]) -> Spec:
    """A spec of a layer with complex inputs, each by its two parts."""
    point = {
        name: Input(name, np.array(one), True, is_complex=True) for name, one in numbers.items()
    }
    layer = Implementation(engine, target, target.partition(":")[0], Span(1, 1, 1, 2))
    return replace(SPEC, points=(point,), wrt=(), implementations=(layer,))


@pytest.mark.parametrize(
    ("engine", "mode", "name", "words"),
    [
        ("torch-compile", "reverse", "x", ["f = torch.compile(f)", "by_reverse(value, 'x', (1,))"]),
        ("torch-compile", "forward", "x", ["torch.compile(by_forward(value, 'x', (1,)))(inputs)"]),
        ("torch-compiled-autograd", "reverse", "x", ["compiled_autograd._enable(torch.compile"]),
        ("jax-jit", "reverse", "x", ["jax.jit(by_reverse(value, 'x', (1,)))(inputs)"]),
        (
            "tensorflow-xla",
            "reverse",
            "x",
            ["tf.function(by_reverse(", "jit_compile=True)(inputs)"],
        ),
        (
            "torch-compile",
            "reverse-over-reverse",
            "x.y",
            ["by_reverse(torch.compile(by_compiled_reverse(value, 'x', (1,))), 'y', ())(inputs)"],
        ),
        (
            "torch-compile",
            "forward-over-reverse",
            "x.y",
            [
                "torch.compile(by_forward(whole_compiled_reverse(value, 'x'), 'y', ()))(inputs)[1]",
                "(inputs[name])\n\n    return derivative",
            ],
        ),
    ],
)
def test_a_compiled_derivative_is_compiled_as_its_engine_does(
    engine: str, mode: str, name: str, words: list[str]
) -> None:
    text = script(replace(FINDING, engine=engine, mode=mode, input=name), SPEC)
    assert "gradcheck" not in text
    for part in words:
        assert part in text


def test_a_gradient_that_hangs_on_nothing_has_no_second_one() -> None:
    """Of a Function whose backward stops the gradient of what it saved."""
    script = REVERSE_AGAIN + (
        "import torch\n"
        "def stopped(inputs):\n    return inputs['x'].detach().sum()\n"
        "inputs = {'x': torch.ones(2, requires_grad=True)}\n"
        "assert by_reverse(stopped, 'x', (0,))(inputs) is None\n"
        "assert by_reverse(by_reverse(stopped, 'x', (0,)), 'x', (0,))(inputs) is None\n"
    )
    exec(compile(script, "script", "exec"), {})
