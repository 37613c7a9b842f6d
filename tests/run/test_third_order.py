"""`order: 3` checks third derivatives. Those of layers are in `tests/checks`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from tests.cli.calling import call_here

pytestmark = pytest.mark.usefixtures("forked")

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


SPECS = {
    "right": RIGHT,
    "cut": CUT,
    "cut_twice": CUT.replace(" - stop_gradient(sin(x)) * step", ""),
    "root": "inputs: {x: 0.0}\nmodel: sqrt(x)\norder: 3\n",
    "pseudoinverse": (
        "inputs: {x: [1.0, 2.0]}\nmodel: sum(pinv(x * reshape(x, (2, 1))) ** 3)\norder: 3\n"
    ),
    "kink": "inputs: {x: [0.0, 2.0]}\nmodel: sum(abs(x) ** 3 + abs(x))\norder: 3\n",
}


@dataclass(frozen=True)
class Checked:
    """What one run says of all of them."""

    screen: str
    results: dict[str, Any]

    def messages(self, spec: str) -> list[str]:
        return [finding["message"] for finding in self.results[spec]["findings"]]

    def said(self, label: str, spec: str) -> int:
        """How often the screen says this of a spec."""
        return len(re.findall(rf"^{re.escape(label)} \S+  {spec}  ", self.screen, re.M))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("third")
    for name, text in SPECS.items():
        (folder / f"{name}.yaml").write_text(text)
    options = ("--engine", "torch,reference", "--report", "json=report.json")
    screen = call_here("run", ".", *options, cwd=folder).out
    report = json.loads((folder / "report.json").read_text())
    return Checked(screen, {result["spec"]: result for result in report["results"]})


def test_right_third_derivatives_pass(checked: Checked) -> None:
    result = checked.results["right"]
    assert result["status"] == "passed"
    assert not result["findings"]
    modes = {check["mode"] for check in result["checks"]}
    assert {THIRD, "forward-over-reverse-over-reverse"} <= modes


def test_a_third_derivative_that_is_cut_off_is_wrong(checked: Checked) -> None:
    findings = checked.results["cut"]["findings"]
    (message,) = {f["message"] for f in findings if f["code"] == "GC106"}
    assert "no third derivative for `x.x`, but it is not zero" in message
    assert THIRD in {finding["mode"] for finding in findings}
    assert checked.said("error[GC106]", "cut") == 1


def test_nothing_is_said_of_the_derivative_of_what_is_wrong(checked: Checked) -> None:
    said = " ".join(checked.messages("cut_twice"))
    assert "no second derivative for `x.x`" in said
    assert "third derivative for" not in said


def test_a_point_without_a_derivative_is_said_once(checked: Checked) -> None:
    assert "GC402" in {finding["code"] for finding in checked.results["root"]["findings"]}
    assert checked.said("warning[GC501]", "root") == 1


def test_what_is_not_certified_is_undecided(checked: Checked) -> None:
    found = checked.results["pseudoinverse"]["findings"]
    third = [one for one in found if "third derivative" in one["message"]]
    assert {one["code"] for one in third} == {"GC501"}
    assert not [one for one in found if one["mode"] == THIRD]


def test_a_kink_of_a_lower_order_leaves_nothing_to_say_of_the_third(checked: Checked) -> None:
    result = checked.results["kink"]
    assert {finding["code"] for finding in result["findings"]} == {"GC401"}
    assert result["status"] == "passed"


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
