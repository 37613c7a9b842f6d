"""`order: 3` checks third derivatives. Those of layers are in `tests/checks`."""

from __future__ import annotations

import json
from pathlib import Path

from gradcheck_cli import specfile
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from tests.cli.calling import call_here

RIGHT = """
inputs: {x: [0.5, -1.0, 2.0], w: [0.25, 1.5, -0.5]}
model: sum(tanh(x * w) * exp(x)) + erf(x[0])
order: 3
"""
CUT = """
inputs: {x: 1.0}
model: |
  def sine_vjp(upstream, x):
      step = x - stop_gradient(x)
      return upstream * (stop_gradient(cos(x)) - stop_gradient(sin(x)) * step)

  @custom_gradient(sine_vjp)
  def sine(x):
      return sin(x)

  sine(x)
modes: [reverse]
order: 3
"""
THIRD = "reverse-over-reverse-over-reverse"


def checked(folder: Path, text: str, *options: str) -> str:
    (folder / "spec.yaml").write_text(text)
    return call_here("run", "spec.yaml", "--engine", "torch,reference", *options, cwd=folder).out


def test_right_third_derivatives_pass(tmp_path: Path) -> None:
    (result,) = json.loads(checked(tmp_path, RIGHT, "--format", "json"))["results"]
    assert result["status"] == "passed"
    assert not result["findings"]
    modes = {check["mode"] for check in result["checks"]}
    assert {THIRD, "forward-over-reverse-over-reverse"} <= modes


def test_a_third_derivative_that_is_cut_off_is_wrong(tmp_path: Path) -> None:
    found = checked(tmp_path, CUT)
    assert "error[GC106]" in found
    assert THIRD in found
    assert "no third derivative for `x.x`, but it is not zero" in found
    assert found.count("error[GC106]") == 1


def test_nothing_is_said_of_the_derivative_of_what_is_wrong(tmp_path: Path) -> None:
    second = CUT.replace(" - stop_gradient(sin(x)) * step", "")
    found = checked(tmp_path, second)
    assert "no second derivative for `x.x`" in found
    assert "third derivative for" not in found


def test_a_point_without_a_derivative_is_said_once(tmp_path: Path) -> None:
    found = checked(tmp_path, "inputs: {x: 0.0}\nmodel: sqrt(x)\norder: 3\n")
    assert "GC402" in found
    assert found.count("warning[GC501]") == 1


def test_what_is_not_certified_is_undecided(tmp_path: Path) -> None:
    text = "inputs: {x: [[2.0, 1.0], [1.0, 3.0]]}\nmodel: sum(eigvalsh(x) ** 3)\norder: 3\n"
    (result,) = json.loads(checked(tmp_path, text, "--format", "json"))["results"]
    third = [one for one in result["findings"] if "third derivative" in one["message"]]
    assert {one["code"] for one in third} == {"GC501"}
    assert not [one for one in result["findings"] if one["mode"] == THIRD]


def test_the_direction_of_one_number_is_one() -> None:
    (spec,), _ = specfile.read("one.yaml", "inputs: {x: 2.0}\nmodel: x ** 4\norder: 3\n")
    options = RunOptions(engines=Layered(override=("reference",)))
    plan = make_plan(spec, options, engines())
    looks = [look for look in plan.looks if THIRD in look.case.projections]
    assert len(looks) == len(plan.dtypes)
    for look in looks:
        (problem, _) = look.problems["reference"]
        assert problem.along == {"x": 1.0}
        assert problem.program is spec.program
        assert look.truth.program is not spec.program


def test_a_kink_of_a_lower_order_leaves_nothing_to_say_of_the_third(tmp_path: Path) -> None:
    kink = "inputs: {x: [0.0, 2.0]}\nmodel: sum(abs(x) ** 3 + abs(x))\norder: 3\n"
    (result,) = json.loads(checked(tmp_path, kink, "--format", "json"))["results"]
    assert {finding["code"] for finding in result["findings"]} == {"GC401"}
    assert result["status"] == "passed"
