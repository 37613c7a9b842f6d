"""What is declared as meant inside a layer is its derivative; everything else is still checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradcheck_cli import UsageError, check
from gradcheck_cli.testing.report import CheckReport
from tests.every import first

STEP = {"function": "Step", "reason": "a step has no slope"}


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, over, steep):
        ctx.save_for_backward(over)
        ctx.steep = steep
        return (over > 0).to(over.dtype)

    @staticmethod
    def backward(ctx, g):
        (over,) = ctx.saved_tensors
        return g * ctx.steep / (1 + (torch.pi * ctx.steep * over) ** 2), None


def meant(y):
    return y.detach()


def layer(x, w, factor=1.0, own=0.0):
    """Two outputs; the derivative by `w` is `factor` times what it should be."""
    y = Step.apply(x - 1, 0.5) + meant(x) * x
    w = w * factor + w.detach() * (1 - factor)
    return y * w + own * x.detach(), y.sum()


DETACH = {"detach": f"{__file__}:meant", "reason": "as in the paper"}
X, W = torch.tensor([0.3, 1.4, 2.0]), torch.tensor([1.0, -0.5, 3.0])


WIDE = {"dtypes": ["float64"], "modes": ["reverse"]}


def wrong(report: CheckReport) -> set[tuple[str, str | None]]:
    return {(f.code, f.input) for f in report.findings if f.severity == "error"}


def test_what_is_declared_is_the_truth() -> None:
    assert wrong(check(layer, X, W, **WIDE)) == {("GC101", "x")}
    assert wrong(check(layer, X, W, **WIDE, by_design=[STEP])) == {("GC101", "x")}
    assert wrong(check(layer, X, W, **WIDE, by_design=[DETACH])) == {("GC101", "x")}
    report = check(layer, X, W, by_design=[STEP, DETACH])
    assert wrong(report) == set()
    assert {one.truth for result in report.results for one in result.checks} == {"declared"}
    (result,) = report.results
    assert [(one.function, one.detach, one.calls) for one in result.by_design] == [
        ("Step", "", 1),
        ("", DETACH["detach"], 1),
    ]
    assert all("test_by_design.py" in place for one in result.by_design for place in one.places)
    assert all(one.places for one in result.by_design)
    assert sum("as in the paper" in note for note in result.notes) == 1


@pytest.mark.parametrize(
    ("factor", "own", "input"), first(1, [(1.0, 1e-3, "x"), (0.999, 0.0, "w")])
)
def test_any_other_error_is_found(factor: float, own: float, input: str) -> None:
    report = check(layer, X, W, factor=factor, own=own, **WIDE, by_design=[STEP, DETACH])
    assert wrong(report) == {("GC101", input)}
    causes = {f.cause.kind for f in report.findings if f.cause and f.input == input}
    assert causes == {"detached path"}, "and its cause is not what is meant"


def test_a_surrogate_inside_has_to_be_what_is_declared() -> None:
    right = {**STEP, "surrogate": "atan(pi * steep * over) / pi"}
    assert wrong(check(layer, X, W, **WIDE, by_design=[right, DETACH])) == set()
    report = check(layer, X, W, **WIDE, by_design=[{**STEP, "surrogate": "sigmoid(over)"}, DETACH])
    assert wrong(report) == {("GC101", "x")}
    assert "`Step` is declared as that of `sigmoid(over)`" in str(report)


def test_a_function_with_a_wrong_factor_is_not_meant_by_its_surrogate() -> None:
    class Half(Step):
        @staticmethod
        def backward(ctx, g):
            return Step.backward(ctx, g)[0] / 2, None

    def halved(x):
        return Half.apply(x - 1, 0.5) * x

    formula = "atan(pi * steep * over) / pi"
    declared = {"function": "Half", "surrogate": formula, "reason": "no slope"}
    assert wrong(check(halved, X, **WIDE, by_design=[declared])) == {("GC101", "x")}
    del declared["surrogate"]
    assert wrong(check(halved, X, **WIDE, by_design=[declared])) == set()


def test_every_way_out_of_the_graph_can_be_meant() -> None:
    def switched(x):
        with torch.no_grad():
            w = torch.exp(-x)
            w = w / w.sum()
        return (w * x**2).sum()

    def numbers(x):
        return x * float(x.sum()) + x * torch.as_tensor(x.data.sum().item())

    for one in (switched, numbers):
        assert wrong(check(one, X, **WIDE)) == {("GC101", "x")}
        line = one.__code__.co_firstlineno
        where = f"{__file__}:{line}"
        report = check(one, X, **WIDE, by_design=[{"detach": where, "reason": "a weight"}])
        assert wrong(report) == set(), one


def test_what_is_cut_off_altogether() -> None:
    def cut(x, w):
        return meant(x) * w

    assert wrong(check(cut, X, W, **WIDE)) == {("GC102", "x")}
    assert wrong(check(cut, X, W, **WIDE, by_design=[DETACH])) == set()


def test_large_layers() -> None:
    x = torch.from_numpy(np.random.default_rng(5).standard_normal(3000))
    w = torch.ones(3000, dtype=torch.float64)
    assert wrong(check(layer, x, w, **WIDE, by_design=[STEP, DETACH])) == set()
    assert wrong(check(layer, x, w, own=0.01, **WIDE, by_design=[STEP, DETACH])) == {("GC101", "x")}

    class Mixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.round(x)

        @staticmethod
        def backward(ctx, g):
            return g.flip(0)

    declared = {"function": "Mixed", "reason": "meant"}
    with pytest.raises(UsageError, match=r"GC903: .* give it a `surrogate`"):
        check(lambda x: Mixed.apply(x) * x, x, by_design=[declared])


class MappedStep(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(over):
        return (over > 0).to(over.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (over,) = ctx.saved_tensors
        return g / (1 + over**2)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("factor", "found"), [(1.0, set()), (0.99, {("GC101", "w")})])
def test_a_function_under_vmap_can_be_meant(factor: float, found: set[tuple[str, str]]) -> None:
    def mapped(x, w):
        w = w * factor + w.detach() * (1 - factor)
        return torch.func.vmap(lambda e: MappedStep.apply(e - 1) + e**2)(x) * w

    declared = {"function": "MappedStep", "reason": "a step has no slope"}
    assert wrong(check(mapped, X, W, **WIDE)) == {("GC101", "x"), *found}
    assert wrong(check(mapped, X, W, **WIDE, by_design=[declared])) == found
    right = {**declared, "surrogate": "atan(over)"}
    assert wrong(check(mapped, X, W, **WIDE, by_design=[right])) == found
    wrong_one = {**declared, "surrogate": "tanh(over)"}
    assert ("GC101", "x") in wrong(check(mapped, X, W, **WIDE, by_design=[wrong_one]))


def test_what_matches_nothing_is_reported() -> None:
    near = {"function": "Stepp", "reason": "a slip"}
    (result,) = check(layer, X, W, **WIDE, by_design=[STEP, DETACH, near]).results
    (note,) = [note for note in result.notes if "unused `by_design`" in note]
    assert "`Stepp` (a slip); did you mean `Step`?" in note
    (result,) = check(torch.sin, X, **WIDE, by_design=[DETACH]).results
    assert any("unused `by_design`" in note for note in result.notes)
    assert {one.truth for one in result.checks} == {"certified, from the trace"}


def test_what_needs_no_declaration_is_said() -> None:
    def needless(x):
        return x**2 + 0 * meant(x)

    (result,) = check(needless, X, **WIDE, by_design=[DETACH]).results
    assert any("`by_design` changes nothing here" in note for note in result.notes)


def test_calls_that_come_and_go_cannot_be_held() -> None:
    def branching(x):
        return sum(meant(y) * y for y in x if y > 0.3 - 1e-12) + x.sum()

    with pytest.raises(UsageError, match=r"GC903: .* a different number of times nearby"):
        check(branching, torch.tensor([0.3, 1.0], dtype=torch.float64), by_design=[DETACH])


def test_second_derivatives_are_left_out() -> None:
    (result,) = check(layer, X, W, order=2, by_design=[STEP, DETACH]).results
    assert not any("over" in one.mode for one in result.checks)
    assert any(note.startswith("second derivatives are not checked") for note in result.notes)


def test_a_module_is_as_it_was() -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x: Any) -> Any:
            return meant(self.scale) * Step.apply(x * self.scale, 1.0)

    module, forward = Module(), Step.forward
    assert wrong(check(module, X, **WIDE, by_design=[STEP, DETACH])) == set()
    assert Step.forward is forward
    assert module.scale.grad is None
    assert module.scale.requires_grad


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"function": "Step"}, "needs a `function` or a `detach`"),
        ({**STEP, "detach": "a.py:1"}, "needs a `function` or a `detach`"),
        ({**STEP, "wrong": "1"}, "no key `wrong`"),
    ],
)
def test_slips_of_the_call(form: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(layer, X, W, **WIDE, by_design=[form])


def test_lines_that_are_not_there() -> None:
    with pytest.raises(UsageError) as caught:
        check(layer, X, W, **WIDE, by_design=[{"detach": f"{__file__}:meent", "reason": "r"}])
    assert "did you mean `meant`?" in caught.value.help
