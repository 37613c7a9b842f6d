"""What a spec says about layers, before any of them is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.specfile import read
from tests.specfile.writing import told

FORM = """\
inputs: {{x: [1.0, 2.0], y: [1.0, 2.0, 3.0]}}
constants: {{k: 2}}
implementations: {{numpy: "layers.py:{target}"}}
model: |
  {model}
"""


def mistakes(folder: Path, model: str, target: str = "layer") -> list[str]:
    (folder / "layers.py").write_text("")
    (folder / "a.yaml").write_text(FORM.format(model=model, target=target))
    _, errors = read(str(folder / "a.yaml"))
    return [told(error) for error in errors]


def test_names_of_a_model_may_be_those_of_parameters(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "k * (x @ dense_kernel) + bias") == []


def test_other_mistakes_of_a_model_are_told_with_the_file(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "sinn(x * w)") == ["GC905 5:3-7 model: unknown operation `sinn`"]
    assert mistakes(tmp_path, "w * (x + y)") == [
        "GC906 5:8-13 model: x + y: (2,) + (3,): the sizes 2 and 3 on axis -1 differ"
    ]
    assert mistakes(tmp_path, "w.T") != []
    assert [told.split()[0] for told in mistakes(tmp_path, "x +")] == ["GC904"]


def test_a_target_is_a_name_in_a_file_that_is_there(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "x", "no name") == [
        "GC903 3:26-45 implementations.numpy: `no name` is not a name in layers.py"
    ]


def test_a_parameter_inside_of_a_layer_has_a_name_with_dots(tmp_path: Path) -> None:
    """Beside implementations only: no formula has such names."""
    (tmp_path / "layers.py").write_text("")
    inputs = "inputs: {x: 1.0, dense.kernel: 2.0, 0.weight: 3.0}\n"
    layer = "implementations: {torch: 'layers.py:layer'}\nmodel: x * dense_kernel + _0_weight\n"
    (spec,), errors = read("a.yaml", inputs + layer.replace("layers.py", f"{tmp_path}/layers.py"))
    assert errors == []
    assert set(spec.inputs) == {"x", "dense.kernel", "0.weight"}
    _, errors = read("a.yaml", inputs + "model: x ** 2\n")
    assert [told(error) for error in errors] == [
        "GC903 1:18-30 inputs.dense.kernel: `dense.kernel` cannot be a name in a formula",
        "GC903 1:37-45 inputs.0.weight: `0.weight` cannot be a name in a formula",
    ]


DESIGN = """\
inputs: {{x: [1.0, 2.0]}}
implementations: {{{engine}: "layers.py:f"}}
by_design:
  - {form}
"""


def designed(folder: Path, form: str, engine: str = "torch") -> list[str]:
    (folder / "layers.py").write_text("def f(x):\n    return x.detach()\n")
    (folder / "a.yaml").write_text(DESIGN.format(form=form, engine=engine))
    specs, errors = read(str(folder / "a.yaml"))
    assert errors or len(specs[0].by_design) == 1
    return [told(error).partition(" ")[2] for error in errors]


def test_what_is_meant_inside_of_a_layer(tmp_path: Path) -> None:
    for form in (
        "{function: ATan, reason: r}",
        "{function: ATan, surrogate: atan(x) / pi, reason: r, engine: torch}",
        "{detach: layers.py:2, reason: r}",
        "{detach: layers.py:f, reason: r}",
        "{detach: package.module:f, reason: r}",
    ):
        assert designed(tmp_path, form) == []


def test_mistakes_in_what_is_meant(tmp_path: Path) -> None:
    for form, *mistakes in (
        ("{function: ATan}", "4:5-21 by_design[0].reason: the key `reason` is missing"),
        ("{reason: r}", "4:5-16 by_design[0].function: the key `function` is missing"),
        (
            "{detach: layers.py:2, function: f, reason: r}",
            "4:27-35 by_design[0].function: unknown key `function`",
        ),
        (
            "{function: ATan, reason: r, engine: jax}",
            "4:41-44 by_design[0].engine: there is no implementation for `jax`",
        ),
        (
            "{detach: layers.py:g, reason: r}",
            "4:14-25 by_design[0].detach: layers.py has no function or class `g`",
        ),
        (
            "{detach: layer.py:1, reason: r}",
            "4:14-24 by_design[0].detach: there is no file layer.py",
        ),
        (
            "{function: ATan, surrogate: atan(x, reason: r}",
            "4:37-38 by_design[0].surrogate: not valid syntax: '(' was never closed",
        ),
        (
            "{function: a b, reason: r}",
            "4:16-19 by_design[0].function: `a b` is not the name of a function or class",
        ),
    ):
        assert designed(tmp_path, form) == mistakes
    (message,) = designed(tmp_path, "{function: f, reason: r}", "numpy")
    assert message.endswith("such a layer has no parts that could be declared separately")


def test_a_formula_has_nothing_inside() -> None:
    text = "inputs: {x: 1}\nmodel: x\nby_design: [{function: f, reason: r}]\n"
    _, (error,) = read("a.yaml", text)
    assert error.message.startswith("`by_design` is for layers")


SETUP = """\
inputs: {{x: 1.0}}
implementations: {{torch: "layers.py:f"}}
setup: {form}
"""


def test_a_setup_belongs_to_every_implementation(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("")
    form = "{environment: {KERAS_BACKEND: torch}, imports: [layers.py, 'os.path:getcwd']}"
    (tmp_path / "a.yaml").write_text(SETUP.format(form=form))
    specs, errors = read(str(tmp_path / "a.yaml"))
    assert errors == []
    (layer,) = specs[0].implementations
    assert layer.setup.environment == {"KERAS_BACKEND": "torch"}
    assert layer.setup.imports == ("layers.py", "os.path:getcwd")
    assert [Path(file).name for file in layer.files] == ["layers.py", "layers.py", "os.path"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("{imports: [shim.py]}", "3:19-26 setup.imports[0]: there is no file shim.py"),
        ("{imports: ['a b']}", "3:19-24 setup.imports[0]: `a b` does not say what is imported"),
        ("{imports: ['os:']}", "3:19-24 setup.imports[0]: `os:` does not say what is imported"),
        (
            "{environment: {A=B: c}}",
            "3:23-26 setup.environment.A=B: `A=B` cannot be an environment variable with "
            "this value",
        ),
        ("{environment: {A: 1}}", "3:26-27 setup.environment.A: "),
        ("{import: [os]}", "3:9-15 setup.import: unknown key `import`"),
    ],
)
def test_a_setup_that_cannot_be_is_told_with_its_place(
    tmp_path: Path, form: str, said: str
) -> None:
    (tmp_path / "layers.py").write_text("")
    (tmp_path / "a.yaml").write_text(SETUP.format(form=form))
    _, errors = read(str(tmp_path / "a.yaml"))
    (only,) = [told(error).partition(" ")[2] for error in errors]
    assert only.startswith(said)


def test_a_formula_has_no_setup(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("inputs: {x: 1}\nmodel: x\nsetup: {imports: [os]}\n")
    _, (error,) = read(str(tmp_path / "a.yaml"))
    assert error.message.startswith("`setup` is for layers")
