from __future__ import annotations

import io
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.spec import Allow, Spec, Tolerance, Train
from gradcheck_cli.specfile import expand, read
from gradcheck_cli.specfile.reader import MAX_ERRORS
from tests.specfile.writing import helps, mistakes, pointed, spec, told

EXAMPLES = Path(__file__).parents[2] / "specs" / "examples"

WHOLE = """\
    name: everything
    description: Every key at once
    inputs:
      x: [[1, 2], [3, 4.5]]
      w: {shape: [2], distribution: normal, mean: 1, std: 0.5, seed: 7, domain: [-10, inf]}
      flag: {value: [true, false], requires_grad: false}
    points:
      - w: [1, 2]
      - x: [[0, 0], [0, 1]]
        w: {shape: [2], distribution: uniform, low: 0, high: 1, seed: 3}
    constants: {k: 2, rate: 1e-3}
    model: |
      z = x @ w * k
      loss = sum(where(flag, z, rate * z) ** 2)
    wrt: [w, x]
    dtypes: [float32, bfloat16]
    engines: [reference, torch]
    modes: [reverse]
    order: 2
    tolerance: {ulps: {float32: 16, bfloat16: 4}}
    allow: [{code: GC301, engine: torch, dtype: float32, input: w, reason: measured and harmless}]
    train:
      optimizer: {sgd: {lr: 0.01}}
      steps: 100
      parameters: [w]
    timeout: 2.5
"""


def test_every_key_reaches_the_spec() -> None:
    found = spec(WHOLE)
    assert (found.name, found.description) == ("everything", "Every key at once")
    assert (found.wrt, found.dtypes, found.engines) == (
        ("w", "x"),
        ("float32", "bfloat16"),
        ("reference", "torch"),
    )
    assert (found.modes, found.order, found.timeout, found.pointed) == (("reverse",), 2, 2.5, True)
    assert found.tolerance == Tolerance(ulps={"float32": 16.0, "bfloat16": 4.0})
    assert found.train == Train(0.01, 100, ("w",))
    assert found.allow == (
        Allow("GC301", "measured and harmless", Span(21, 16, 21, 21), "torch", "float32", "w"),
    )
    assert [node.name for node in found.program.nodes if node.op == "sum"] == ["loss"]
    assert found.span == Span(1, 7, 1, 17)


def test_points_fill_in_what_they_do_not_name() -> None:
    first, second = spec(WHOLE).points
    np.testing.assert_array_equal(first["w"].value, [1, 2])
    np.testing.assert_array_equal(first["x"].value, [[1, 2], [3, 4.5]])
    np.testing.assert_array_equal(second["x"].value, [[0, 0], [0, 1]])
    assert second["flag"].value.tolist() == [True, False]
    assert (first["w"].low, first["w"].high) == (-10, np.inf)


def test_a_minimal_spec_has_defaults() -> None:
    found = spec("inputs: {x: 2}\nmodel: x ** 2")
    assert (found.name, found.description, found.wrt, found.order) == ("a", "", ("x",), 1)
    assert (found.dtypes, found.engines, found.modes, found.tolerance) == (None,) * 4
    assert (found.allow, found.train, found.timeout, found.pointed) == ((), None, None, False)
    assert (found.points[0]["x"].value.dtype, found.points[0]["x"].value.shape) == (float, ())
    assert found.span == Span(2, 1, 2, 6)


def test_the_default_of_wrt_is_every_floating_input_that_wants_a_gradient() -> None:
    found = spec(
        """\
        inputs:
          x: [1, 2]
          data: {value: [3, 4], requires_grad: false}
          mask: [true, false]
          count: {value: [1, 2], dtype: int64}
        model: sum(where(mask, x * data, x) * count)
        """
    )
    assert found.wrt == ("x",)
    assert [i.requires_grad for i in found.inputs.values()] == [True, False, False, False]


def test_one_file_holds_several_specs() -> None:
    specs, errors = read("d/many.yaml", "name: one\n" + "inputs: {x: 2}\nmodel: x ** 2\n---\n" * 3)
    assert [found.name for found in specs] == ["one", "many#2", "many#3"]
    assert errors == []
    assert [found.span.line for found in specs] == [1, 6, 9]


def test_a_document_with_a_mistake_leaves_the_others() -> None:
    good = "name: good\ninputs: {x: 2}\nmodel: x ** 2\n"
    specs, errors = read("a.yaml", f"inputs: {{x: 2}}\nmodel: x +\n---\n3\n---\n{good}")
    assert [found.name for found in specs] == ["good"]
    assert [told(error) for error in errors] == [
        "GC904 2:11-12 model: not valid syntax",
        "GC903 4:1-2 a spec is a mapping of keys, not the number `3`",
    ]


def test_after_broken_yaml_nothing_more_is_read_and_that_is_said() -> None:
    text = "inputs: {x: 2}\nmodel: x ** 2\n---\na: [1\n---\ninputs: {x: 2}\nmodel: x\n"
    specs, errors = read("a.yaml", text)
    assert [found.name for found in specs] == ["a#1"]
    (error,) = errors
    assert error.code == "GC902"
    assert error.message.startswith("not valid YAML")


def test_two_specs_of_one_name_are_a_mistake() -> None:
    text = "name: a\ninputs: {x: 2}\nmodel: x ** 2\n---\nname: a\ninputs: {x: 2}\nmodel: x ** 3\n"
    specs, (error,) = read("f.yaml", text)
    assert len(specs) == 1
    assert told(error) == "GC903 5:7-8 name: two specs in this file are called a"
    assert error.help == "the first is on line 1"


def test_schema_and_formula_mistakes_are_told_together_in_order() -> None:
    text = """\
        inputs:
          x: {shape: [3, 2], distribution: gaussian}
          W: [[1, 2], [3]]
          b: 1
        modle: x
        model: |
          z = x @ W + c
          sun(z) + b
        dtypes: [float31]
        """
    assert mistakes(text) == [
        "GC903 2:36-44 inputs.x.distribution: unknown distribution: text `gaussian`",
        "GC903 3:15-18 inputs.W[1]: a ragged list: 1 entries here, but 2 in the first one",
        "GC903 5:1-6 modle: unknown key `modle`",
        "GC905 7:15-16 model: unknown name `c`",
        "GC905 8:3-6 model: unknown operation `sun`",
        "GC903 9:10-17 dtypes[0]: text `float31` is not valid here",
    ]
    assert pointed(text) == ["gaussian", "[3]", "modle", "c", "sun", "float31"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "GC902 1:1-2 the file is empty"),
        ("  \n\n", "GC902 1:1-2 the file is empty"),
        ("# nothing\n", "GC902 1:1-10 there is no spec in this file"),
        ("---\n---\n", "GC902 1:1-4 there is no spec in this file"),
        ("&&", "GC902 1:1-3 there is no spec in this file"),
        ("# nothing\n--- &a\n", "GC902 2:1-7 there is no spec in this file"),
        ("---\n  ~  # nothing\n", "GC902 2:3-15 there is no spec in this file"),
        ("just words", "GC903 1:1-11 a spec is a mapping of keys, not text `just words`"),
        ("- 1\n- 2", "GC903 1:1-2:4 a spec is a mapping of keys, not a list"),
        ("inputs: {x: \0}", "GC901 1:13-14 a NUL byte in the file: it is not a text file"),
        (
            "inputs: {x: \x1b}",
            "GC901 1:13-14 the control character U+001B in the file: it is not a text file",
        ),
    ],
)
def test_files_without_a_spec(text: str, expected: str) -> None:
    assert mistakes(text) == [expected]


def test_missing_keys_are_told_with_what_they_are_for() -> None:
    assert mistakes("name: a") == [
        "GC903 1:1-5 inputs: the key `inputs` is missing",
        "GC903 1:1-5 model: the key `model` or `implementations` is missing",
    ]
    assert helps("name: a")[1].startswith("model: a formula")


def test_a_list_for_a_mapping_is_the_only_mistake_and_its_form_is_shown() -> None:
    text = "inputs: {x: 1}\nimplementations: [{torch: layers.py:F}]"
    assert mistakes(text) == [
        "GC903 2:18-40 implementations: `implementations` must be a mapping, not a list"
    ]
    (help,) = helps(text)
    assert "`torch: layers.py:MyLayer`" in help
    (help,) = helps("inputs: [{x: 1}]\nmodel: x")
    assert "by name" in help


@pytest.mark.parametrize(
    ("model", "place"),
    [
        ("model: zz + 1", (2, 8)),
        ("model: 'zz + 1'", (2, 9)),
        ('model: "zz + 1"', (2, 9)),
        ('model: "1 + \\x7az"', (2, 13)),
        ("model: '1 * (''a'' + zz)'", (2, 22)),
        ("model: |\n  zz + 1", (3, 3)),
        ("model: | # note\n\n     1 +\\\n     zz", (5, 6)),
        ("model: |2-\n    zz\n", (3, 5)),
        ("model: >\n  1 +\n  zz", (4, 3)),
        ("model: >-\n\n  (1\n\n   + zz)", (6, 6)),
        ("model: 1 +\n  2 +\n    zz", (4, 5)),
        ('model: "1 +\n  2 + \\\n  zz"', (4, 3)),
        ("model: &anchor zz + 1", (2, 16)),
        ("model:\n  zz + 1", (3, 3)),
    ],
)
def test_places_are_exact_in_every_style_of_scalar(model: str, place: tuple[int, int]) -> None:
    _, errors = read("a.yaml", f"inputs: {{x: 2}}\n{model}")
    span = errors[0].span
    assert span is not None
    assert (span.line, span.column) == place


def test_windows_line_ends_change_no_place() -> None:
    text = "inputs: {x: 2}\nmodel: |\n  y = x\n  y + zz\n"
    (error,) = read("a.yaml", text.replace("\n", "\r\n"))[1]
    assert error.span == Span(4, 7, 4, 9)


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    text = 'name: "\\e[31mred"\ninputs: {x: 1}\nmodel: x ** 2\n"\\e[2J": 1\n'
    assert mistakes(text) == [
        "GC903 1:7-18 name: `name` contains control characters",
        "GC903 4:1-8 \\x1b[2J: unknown key `\\x1b[2J`",
    ]


def test_a_file_with_many_mistakes_tells_the_first_hundred() -> None:
    found = mistakes("inputs: {x: 1}\nmodel: x\n" + "".join(f"k{i}: 1\n" for i in range(500)))
    assert len(found) == MAX_ERRORS + 1
    assert found[-1].endswith("and 400 more mistakes")


def test_standard_input_is_read_as_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO("inputs: {x: 2}\nmodel: x ** 2  # é".encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    (found,), errors = read("-")
    assert (found.name, found.source.path, errors) == ("stdin", "-", [])


def test_every_example_is_in_order_and_says_where_its_schema_is() -> None:
    files, errors, _ = expand([str(EXAMPLES)])
    assert errors == []
    assert len(files) >= 13
    for file in files:
        specs, mistakes_ = read(file)
        assert mistakes_ == []
        assert [found.name for found in specs] == [Path(file).stem]
        assert specs[0].description
        first = specs[0].source.line(1)
        assert first == "# yaml-language-server: $schema=../../docs/schema/spec.schema.json"
        assert (EXAMPLES / first.split("=")[1]).resolve().is_file()


_SIGNS = r"- : [ ] { } , # & * ! | > ' \" % @ ` ? ~ \ é inputs x model points value 1e-3 .inf no"
_MORE = ["|\n  ", ">-\n  ", "x ** 2", "shape: [2]", "9" * 400, "%YAML 1.1\n"]
_PIECES = st.sampled_from(
    [
        *_SIGNS.split(),
        " ",
        "\t",
        "\n",
        "\n  ",
        ": ",
        "- ",
        "&a ",
        "---\n",
        "<<: *a",
        "!!int ",
        *_MORE,
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60) | st.lists(_PIECES, max_size=30).map("".join),
    st.integers(0, 1000),
)
def test_no_text_raises_and_every_place_is_in_it(junk: str, where: int) -> None:
    whole = "\n".join(line[4:] for line in WHOLE.splitlines())
    cut = where % len(whole)
    for text in (junk, whole[:cut] + junk + whole[cut:]):
        specs, errors = read("a.yaml", text)
        assert specs or errors
        for error in errors:
            assert error.path == "a.yaml"
            if error.span is not None:
                assert error.source is not None
                line = error.source.line(error.span.line)
                assert 1 <= error.span.column <= len(line) + 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("dir/bad\udcff.yaml", "bad\\xff"),
        ("red\x1b[31m.gradcheck.yaml", "red\\x1b[31m"),
        ("größe.yaml", "größe"),
    ],
)
def test_a_file_of_any_name_names_its_spec_in_characters(path: str, name: str) -> None:
    (spec,), _ = read(path, "inputs: {x: 1}\nmodel: x\n")
    assert spec.name == name
    assert spec.source.path == path


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
