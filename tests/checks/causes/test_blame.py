"""What spoils a number inside a layer: the operation, its line, the proof; and what is shown."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradcheck_cli.checks.causes import blame as blaming
from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import Cause, Finding, Report, SpecResult
from gradcheck_cli.engines.layer import recording
from gradcheck_cli.report import open_writer
from gradcheck_cli.report.json_report import as_json
from gradcheck_cli.report.style import Style
from gradcheck_cli.truth.formulas import compute as of_formulas
from tests.checks.making import SPAN, examined

HERE = Path(__file__)

pytestmark = pytest.mark.usefixtures("one_thread")


def recip(x: Any) -> Any:
    return 1 / torch.exp(x)


class StatedRecip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        e = torch.exp(x)
        ctx.save_for_backward(e)
        return 1 / e

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (e,) = ctx.saved_tensors
        return -g * e / (e * e)


class Masked(nn.Module):
    """Twenty lines of a module, one of which looks safe."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)
        with torch.no_grad():
            self.mix.weight.copy_(torch.eye(3))
            self.mix.bias.zero_()
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        h = self.mix(x)
        scaled = h * self.gain
        root = torch.where(scaled > 0, torch.sqrt(scaled), torch.zeros_like(scaled))
        return torch.tanh(root).sum(-1)


def log_softmax(x: Any) -> Any:
    e = torch.exp(x)
    return torch.log(e / e.sum(-1, keepdim=True))


def norm(x: Any) -> Any:
    return torch.sqrt((x * x).sum())


def shifted(x: Any) -> Any:
    return torch.log1p(torch.exp(x)) - (x + 1e-8)


def worst(findings: tuple[Finding, ...], code: str, leaf: str | None = "x") -> Finding:
    """The finding with this code about this leaf in reverse mode."""
    (found,) = (f for f in findings if (f.code, f.input, f.mode) == (code, leaf, "reverse"))
    return found


def blamed(layer: Any, inputs: dict[str, Any], code: str, **settings: Any) -> Cause:
    answer = examined(layer, inputs, dtype="float32", modes=("reverse",), **settings)
    assert answer.failure is None
    cause = worst(answer.findings, code).cause
    assert cause is not None
    return cause


def stands_at(cause: Cause, text: str) -> bool:
    """Whether the cause points at `text` on the line of this file that has it."""
    assert cause.source is not None
    lines = HERE.read_text("utf-8").splitlines()
    line = lines[cause.span.line - 1]
    assert cause.source.path.endswith(HERE.name)
    assert cause.source.line(cause.span.line) == line
    return cause.text == text == line[cause.span.column - 1 : cause.span.end_column - 1]


def test_the_operation_that_overflows_and_its_stretch_of_the_line() -> None:
    cause = blamed(recip, {"x": [60.0, 100.0]}, "GC201")
    assert stands_at(cause, "torch.exp(x)")
    assert (cause.op, cause.phase, cause.kind, cause.proven) == ("exp", "forward", "overflow", True)
    assert cause.detail == "overflows float32: exp(100) = 2.69e+43 > 3.4e+38"
    assert cause.engine_op == "aten.exp"


def test_a_value_that_is_spoiled_is_so_in_both_modes() -> None:
    answer = examined(recip, {"x": [100.0]}, dtype="float32")
    one, other = (finding.cause for finding in answer.findings if finding.code == "GC201")
    assert one is not None
    assert other is not None
    assert (one.span, one.kind, one.proven) == (other.span, other.kind, True)
    assert other.proof == f"in reverse mode, {one.proof}"


def test_an_entry_is_explained_by_the_numbers_that_it_depends_on() -> None:
    cause = blamed(recip, {"x": [100.0, 60.0]}, "GC302")
    assert cause.phase == "backward"
    assert cause.text == "1 / torch.exp(x)"
    assert "1.3e+52" in cause.detail or "7.67e-53" in cause.detail


def test_a_stated_backward_is_code_with_lines_of_its_own() -> None:
    cause = blamed(StatedRecip, {"x": [60.0]}, "GC302")
    assert stands_at(cause, "e * e")
    assert (cause.op, cause.phase, cause.kind) == ("multiply", "backward", "overflow")
    assert cause.story.startswith("in your backward: 1.14e+26 * 1.14e+26 = inf")


def test_a_masked_branch_is_found_for_inputs_and_parameters() -> None:
    answer = examined(Masked, {"x": [[1.0, -1.0, 2.0]]}, dtype="float64", modes=("reverse",))
    for leaf in ("x", "gain", "mix.bias"):
        cause = worst(answer.findings, "GC201", leaf).cause
        assert cause is not None
        assert stands_at(cause, "torch.sqrt(scaled)")
        assert cause.kind == "masked branch"
        assert "where(0, nan, 0) = 0; backward: 0 * inf = nan" in cause.story


def test_an_output_that_is_lost() -> None:
    answer = examined(log_softmax, {"x": [1.0, 200.0]}, dtype="float32", modes=("reverse",))
    cause = worst(answer.findings, "GC203", None).cause
    assert cause is not None
    assert stands_at(cause, "torch.exp(x)")
    assert "exact, the output is right" in cause.proof


def test_what_underflows_before_it_is_divided_by() -> None:
    cause = blamed(norm, {"x": [0.0, 1e-30]}, "GC201")
    assert stands_at(cause, "x * x")
    assert cause.kind == "underflow"


def test_where_digits_are_lost() -> None:
    cause = blamed(shifted, {"x": [12.0, 9.0]}, "GC301")
    assert "torch.log1p(torch.exp(x)) - (x + 1e-8)" in cause.text
    assert cause.proven


def test_a_run_that_is_too_large_to_be_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_STEPS", 2)
    answer = examined(recip, {"x": [100.0]}, dtype="float32", modes=("reverse",))
    assert worst(answer.findings, "GC201").cause is None
    assert "not traced: it executes more than 2 operations" in answer.notes


def test_a_layer_that_does_not_run_while_it_is_watched() -> None:
    def shy(x: Any) -> Any:
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("not with a mode")
        return 1 / torch.exp(x)

    answer = examined(shy, {"x": [100.0]}, dtype="float32", modes=("reverse",))
    assert worst(answer.findings, "GC201").cause is None
    assert "not traced: RuntimeError: not with a mode" in answer.notes


def test_reports_show_the_line_of_the_code() -> None:
    answer = examined(recip, {"x": [100.0]}, dtype="float32", modes=("reverse",))
    finding = replace(worst(answer.findings, "GC201"), span=SPAN)
    assert finding.cause is not None
    spec = Source("layer.yaml", "name: layer\n")
    result = SpecResult("layer", spec, "failed", findings=(finding,))
    report = Report("0", {}, 0, 0.0, (result,))
    path, line = finding.cause.source, finding.cause.span.line
    assert path is not None

    def written(name: str) -> str:
        stream = io.StringIO()
        made = open_writer(name, stream, Style(width=100))
        made.spec(result)
        made.finish(report)
        return stream.getvalue()

    screen = written("full")
    assert f"--> {path.path}:{line}:16" in screen
    assert f"{line} |     return 1 / torch.exp(x)\n" in screen
    assert "^^^^^^^^^^^^ overflows float32" in screen
    assert written("concise").startswith(f"{path.path}:{line}:16: error[GC201]")
    (told,) = as_json(report)["results"][0]["findings"]
    assert (told["cause"]["path"], told["cause"]["line"]) == (path.path, line)
    assert told["location"]["path"] == "layer.yaml"


def test_a_mistake_of_gradchecks_own_is_an_error_beside_the_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blaming, "proven", None)
    answer = examined(recip, {"x": [100.0]}, dtype="float32", modes=("reverse",))
    assert {finding.code for finding in answer.findings} == {"GC201", "GC706"}
    assert not any("traced" in note for note in answer.notes)


def test_a_layer_whose_truth_breaks_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_formulas, "certify", None)
    answer = examined(recip, {"x": [1.0]})
    assert answer.failure is not None
    assert answer.failure.kind == "internal"
    assert "TypeError" in answer.failure.message


class Guarded(nn.Module):
    """At its bound, where float64 rounds the root to the number that it is compared with."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix, self.last = nn.Linear(2, 3), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        root = x.var(0, correction=0).clamp(min=1e-5).sqrt()
        root = root.masked_fill(root <= math.sqrt(1e-5), 0.0)
        return self.last(self.mix(root + x))


def test_what_the_rounding_of_equal_numbers_decides_accuses_nobody_in_either_mode() -> None:
    x = [[0.3, 0.2], [0.3, 0.9]]
    layer = Guarded()
    for given in (layer, lambda x: layer(x)):
        answer = examined(given, {"x": x}, modes=("reverse", "forward"), dtype="float64")
        assert not [finding for finding in answer.findings if finding.severity != "note"]
        assert any("rounding of two equal numbers" in note for note in answer.notes)


def wide_margin(x: Any) -> Any:
    """Both dtypes round the probability of the first class to 1, so both lose the same terms."""
    logits = x @ x.new_tensor([[60.0, 3.0, 0.0], [1.0, -1.0, 2.0], [2.0, 4.0, -3.0]])
    return nn.functional.cross_entropy(logits, torch.tensor([0]))


def scaled_wide_margin(x: Any) -> Any:
    return nn.functional.log_softmax(torch.cat([48 * x, x * x, x], -1), -1).select(-1, 0).sum()


@pytest.mark.parametrize("layer", [wide_margin, scaled_wide_margin])
def test_what_a_kernel_absorbs_in_both_dtypes_is_no_wrong_gradient(layer: Any) -> None:
    """A gradient that lost the same terms in both is the same wrong number in both."""
    x = {"x": [[1.0, 0.3, -0.2]]} if layer is wide_margin else {"x": [[1.0]]}
    codes = {f.code for f in examined(layer, x, dtype="float64", modes=("reverse",)).findings}
    assert codes <= {"GC301", "GC302", "GC303"}
    assert codes & {"GC301", "GC302"}


class WrongLogSoftmax(torch.autograd.Function):
    """Whose backward has the wrong sign of its second term."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.log_softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g + y.exp() * g.sum(-1, keepdim=True)


def test_a_wrong_rule_beside_what_a_kernel_absorbs_is_a_wrong_gradient() -> None:
    def layer(x: Any) -> Any:
        logits = x @ x.new_tensor([[60.0, 3.0, 0.0], [1.0, -1.0, 2.0], [2.0, 4.0, -3.0]])
        return WrongLogSoftmax.apply(logits).select(-1, 0).sum()

    answer = examined(layer, {"x": [[1.0, 0.3, -0.2]]}, dtype="float64", modes=("reverse",))
    assert {f.code for f in answer.findings} & {"GC101"}


def stick(x: Any) -> Any:
    return torch.distributions.StickBreakingTransform()(x)


def clamped_logits(x: Any) -> Any:
    p = torch.distributions.utils.clamp_probs(torch.sigmoid(x))
    return torch.log(p) - torch.log1p(-p)


@pytest.mark.parametrize(
    ("layer", "x"), [(stick, [6.0, -14.0, 24.0, 2.0]), (clamped_logits, [20.0, 0.5])]
)
def test_a_bound_that_is_an_epsilon_of_the_dtype_is_no_wrong_gradient(layer: Any, x: Any) -> None:
    """In float32, these are other functions, with other values: their gradients are right, and
    not those of the function in float64."""
    answer = examined(layer, {"x": x}, dtype="float32")
    codes = {one.code for one in answer.findings if one.severity == "error"}
    assert codes
    assert codes <= {"GC301", "GC302"}
    assert any("the layer computes a different function" in one.message for one in answer.findings)


def masked_by_numbers(x: Any) -> Any:
    chosen = (x > 0).to(x).bool()  # a cast of numbers, and no comparison
    return torch.log1p(torch.exp(x[chosen]) - 1 + 1e-9)


def by_a_complex_number(x: Any) -> Any:
    turned = torch.exp(torch.arange(3) * 1j * x)
    return torch.log(turned.real.sum() ** 2 + turned.imag.sum() ** 2 + 1e-30) + (x + 1e8) - 1e8


@pytest.mark.parametrize("layer", [masked_by_numbers, by_a_complex_number])
def test_masks_made_of_numbers_and_complex_constants_are_traced(layer: Any) -> None:
    answer = examined(layer, {"x": [1e-7]}, modes=("reverse",), dtype="float32")
    assert answer.findings
    assert "GC706" not in {finding.code for finding in answer.findings}
    assert not any("not traced" in note for note in answer.notes)
