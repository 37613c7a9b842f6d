"""The layers of specs/layers are right on every engine; with one mistake in them they are not."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.specfile import read
from tests.acceptance.mistakes import MISTAKES, Mistake
from tests.conftest import Judged, decide
from tests.every import first

LAYERS = sorted((Path(__file__).parents[2] / "specs" / "layers").glob("*.yaml"))
ENGINES = ("reference", "torch", "tensorflow")
NAMES = [path.stem for path in LAYERS]

# A rule that forgets a thousandth of what comes back, above an identity.
SLIP = """  def slip_vjp(upstream, z):
      return 0.999 * upstream

  @custom_gradient(slip_vjp)
  def slip(z):
      return 1 * z

"""


@cache
def text_of(name: str) -> str:
    (path,) = [path for path in LAYERS if path.stem == name]
    return path.read_text("utf-8")


def spec_of(path: Path) -> Spec:
    specs, problems = read(path)
    assert problems == []
    (spec,) = specs
    return replace(spec, engines=ENGINES)


def test_the_layers_are_those_that_people_write() -> None:
    assert set(NAMES) >= {
        "attention",
        "conv_block",
        "gaussian_mixture",
        "gru_cell",
        "layer_norm",
        "linear_gaussian",
        "lstm_cell",
        "mlp",
        "ode_rk4",
        "softmax_regression",
        "triplet_loss",
        "vae_loss",
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize(("dtype", "order"), [("float32", 1), ("float64", 2)])
@pytest.mark.parametrize("path", LAYERS, ids=NAMES)
def test_a_layer_is_right_on_every_engine(path: Path, dtype: str, order: int) -> None:
    """Both modes, then the second derivative in reverse: the other compositions are shown of every
    row, and TensorFlow compiles each operation anew for them."""
    spec = replace(spec_of(path), order=min(order, spec_of(path).order))
    if order == 2:
        spec = replace(spec, modes=("reverse",))
    judged = decide(spec, dtype, named=False)
    worse = [f for f in judged.findings if f.severity != "note"]
    assert [f"{f.code} {f.engine} {f.mode} {f.message}" for f in worse] == []
    assert {check.status for check in judged.checks} == {"passed"}
    assert {check.engine for check in judged.checks} == set(ENGINES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_a_factor_of_0_999_in_a_layer_is_found(name: str, tmp_path: Path) -> None:
    text = re.sub(r"(?m)^order: 2\n", "", text_of(name))
    lines = text.replace("model: |\n", "model: |\n" + SLIP).rstrip("\n").split("\n")
    assigned, value = lines[-1].split("  #")[0].split(" = ", 1)
    lines[-1] = f"{assigned} = slip({value})"
    path = tmp_path / f"{name}.yaml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    spec = replace(spec_of(path), engines=("reference",), modes=("reverse",))
    judged = decide(spec, "float32", named=False)
    wrong = judged.of("GC101")
    assert wrong
    assert all(finding.span is not None for finding in wrong)
    assert {finding.span.line for finding in wrong if finding.span} == {len(lines)}


def with_its_own_gradient(layer: str, mistake: Mistake, rule: str, folder: Path) -> Judged:
    """The layer with a part whose gradient is `rule`, judged on every engine."""
    text = re.sub(r"(?m)^order: 2\n", "", text_of(layer))
    assert text.count(mistake.line) == 1
    text = text.replace(mistake.line, mistake.calls)
    indented = textwrap.indent(textwrap.dedent(rule).strip("\n"), "  ")
    path = folder / f"{layer}.yaml"
    path.write_text(text.replace("model: |\n", f"model: |\n{indented}\n\n"), "utf-8")
    return decide(replace(spec_of(path), modes=("reverse",)), "float32", named=False)


def test_every_layer_has_a_mistake() -> None:
    assert {title.partition(":")[0] for title in MISTAKES} == set(NAMES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("title", MISTAKES)
def test_a_gradient_by_hand_is_right_without_its_mistake(title: str, tmp_path: Path) -> None:
    mistake = MISTAKES[title]
    judged = with_its_own_gradient(title.partition(":")[0], mistake, mistake.rule, tmp_path)
    assert judged.passed, judged.findings


@pytest.mark.parametrize("title", first(4, MISTAKES))
def test_a_mistake_of_a_person_is_found_on_every_engine_at_its_line(
    title: str, tmp_path: Path
) -> None:
    layer, mistake = title.partition(":")[0], MISTAKES[title]
    assert mistake.rule.count(mistake.right) == 1
    rule = mistake.rule.replace(mistake.right, mistake.wrong)
    judged = with_its_own_gradient(layer, mistake, rule, tmp_path)
    lines = judged.case.spec.source.text.splitlines()
    (place,) = [number for number, line in enumerate(lines, 1) if mistake.calls in line]
    for engine in ENGINES:
        causes = [finding.cause for finding in judged.of("GC101", engine=engine)]
        assert causes
        assert {cause and cause.span.line for cause in causes} == {place}
        assert all(cause and f"{cause.op}(" in mistake.calls for cause in causes)
