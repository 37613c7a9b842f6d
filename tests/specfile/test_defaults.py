"""The first document of a file may say what holds for all of its specs."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from gradcheck_cli.domain.spec import Spec, Tolerance
from gradcheck_cli.specfile import read
from tests.specfile.writing import told


def both(text: str, path: str = "specs/a.yaml") -> tuple[list[Spec], list[str]]:
    specs, errors = read(path, dedent(text))
    return specs, [told(error) for error in errors]


def test_what_a_spec_does_not_say_is_as_the_file_says() -> None:
    (one, other), errors = both("""\
        defaults:
          dtypes: [float64]
          tolerance: {ulps: 8}
          timeout: 3
          allow: [{code: GC301, reason: known}]
        ---
        inputs: {x: 1.0}
        model: x * x
        ---
        inputs: {x: 1.0}
        model: x * x
        dtypes: [float32]
        allow: [{code: GC502, reason: here}]
    """)
    assert errors == []
    assert (one.name, other.name) == ("a#1", "a#2")
    assert (one.dtypes, other.dtypes) == (("float64",), ("float32",))
    assert one.tolerance == other.tolerance == Tolerance(ulps={"": 8.0})
    assert one.timeout == other.timeout == 3
    assert [(a.code, a.shared) for a in one.allow] == [("GC301", True)]
    assert [(a.code, a.shared) for a in other.allow] == [("GC301", True), ("GC502", False)]


def test_one_spec_below_them_has_the_name_of_the_file() -> None:
    (spec,), errors = both("defaults: {order: 2}\n---\ninputs: {x: 1.0}\nmodel: x\n")
    assert errors == []
    assert (spec.name, spec.order) == ("a", 2)


def test_what_is_about_layers_is_left_out_of_formulas(tmp_path: Path) -> None:
    (tmp_path / "l.py").write_text("")
    (formula, layer, other), errors = both(
        """\
        defaults:
          power: 0.9
          surrogate: {backward: straight_through, reason: quantised}
          by_design:
            - {function: Step, reason: no slope}
            - {function: step, engine: jax, reason: no slope}
        ---
        inputs: {x: 1.0}
        model: x * x
        ---
        inputs: {x: 1.0}
        implementations:
          torch: l.py:f
          numpy: {target: l.py:g, surrogate: {backward: x, reason: own}}
        ---
        inputs: {x: 1.0}
        implementations: {jax: l.py:f}
        by_design: [{function: other, reason: r}]
        """,
        str(tmp_path / "a.yaml"),
    )
    assert errors == []
    assert (formula.power, layer.power) == (None, 0.9)
    assert formula.by_design == ()
    assert [d.name for d in layer.by_design] == ["Step"]
    assert [(d.name, d.shared) for d in other.by_design] == [
        ("Step", True),
        ("step", True),
        ("other", False),
    ]
    assert [[s.formula for s in one.surrogates] for one in layer.implementations] == [
        ["straight_through"],
        ["x"],
    ]


def test_mistakes_have_their_places_and_are_told_once() -> None:
    specs, errors = both("""\
        defaults:
          dtype: [float64]
          engines: [pytorch]
          order: 4
        ---
        inputs: {x: 1.0}
        model: x
        ---
        inputs: {x: 1.0}
        model: 2 * x
        name: b
    """)
    assert errors == [
        "GC903 2:3-8 defaults.dtype: unknown key `dtype`",
        "GC903 4:10-11 defaults.order: `order` must be at most 3",
        "GC903 3:13-20 engines[0]: there is no engine `pytorch`",
    ]
    assert specs == []


def test_defaults_stand_alone_and_first() -> None:
    message = "`defaults` must be the only key, in the first document of a file"
    _, errors = both("defaults: {order: 2}\ninputs: {x: 1.0}\nmodel: x\n")
    assert errors == [f"GC903 1:1-9 defaults: {message}"]
    _, errors = both("inputs: {x: 1.0}\nmodel: x\n---\ndefaults: {order: 2}\n")
    assert errors[0] == f"GC903 4:1-9 defaults: {message}"
    specs, errors = both("defaults: {order: 2}\n")
    assert (specs, errors) == ([], ["GC902 - this file has defaults, but no spec"])
    _, errors = both("defaults: 3\n---\ninputs: {x: 1.0}\nmodel: x\n")
    assert errors == ["GC903 1:11-12 defaults: `defaults` must be a mapping, not the number `3`"]
