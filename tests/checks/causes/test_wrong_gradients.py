"""Gradients of layers that are wrong, and not by rounding: the function or the call that is to
blame, its line, and the pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradcheck_cli import check
from gradcheck_cli.checks.causes.rule_fixes import RuleFixes
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.layer.branches import returning_line
from gradcheck_cli.engines.layer.declared import Declared, NotDeclarable
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.torch.layer import TorchSubject
from tests.checks.making import examined, layer_problem
from tests.every import first


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Sin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.cos(x)


class Matmul(torch.autograd.Function):
    """Without `ctx` in its forward."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a @ b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g @ b.T, a.T @ g


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, power: int = 2) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.power = power
        return x * weight**power

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        forgotten = (g * x).sum(0) * weight ** (ctx.power - 1)
        return g * weight**ctx.power, forgotten, None


class HalvedMatmul(Matmul):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g @ b.T, 0.5 * (a.T @ g)


class NegatedProduct(torch.autograd.Function):
    """Whose jvp has the wrong sign."""

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a * b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b, g * a

    @staticmethod
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        a, b = ctx.saved_tensors
        return -(s * b + a * t)


matmul, halved = Matmul.apply, HalvedMatmul.apply


class Five(nn.Module):
    """Five custom functions, of which one is wrong."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.first = nn.Parameter(torch.randn(3, 4, generator=draw))
        self.scale = nn.Parameter(torch.rand(4, generator=draw) + 0.5)
        self.second = nn.Parameter(torch.randn(4, 2, generator=draw))

    def forward(self, x: Any) -> Any:
        h = Tanh.apply(matmul(x, self.first))
        h = Scale.apply(h, self.scale, 5)
        return matmul(Sin.apply(Square.apply(h)), self.second)


class Large(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 6400).reshape(80, 80))

    def forward(self, x: Any) -> Any:
        return halved(Tanh.apply(x), self.weight)


def detached(x: Any) -> Any:
    size = torch.sqrt((x * x).sum()).detach()
    return x / size


def without_grad(x: Any) -> Any:
    with torch.no_grad():
        size = (x * x).sum()
        size = torch.sqrt(size)
    return x / size


def as_data(x: Any) -> Any:
    return x * torch.exp(x).data


def in_numpy(x: Any) -> Any:
    return torch.from_numpy(np.sin(x.detach().numpy()))


class SinAndCos(torch.autograd.Function):
    """Whose second output is no constant, as it says."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        both = torch.sin(x), torch.cos(x)
        ctx.save_for_backward(both[1])
        ctx.mark_non_differentiable(both[1])
        return both

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g * ctx.saved_tensors[0]


def marked_product(x: Any) -> Any:
    sin, cos = SinAndCos.apply(x)
    return sin * cos


def marked(x: Any) -> Any:
    return SinAndCos.apply(x)[1]


class Recomputed(nn.Module):
    """Whose recomputation reads a number that the forward has changed after the first run."""

    def __init__(self, reentrant: bool, in_place: bool = False) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.reentrant, self.in_place = reentrant, in_place

    def forward(self, x: Any) -> Any:
        self.scale = torch.ones_like(self.scale)
        y = checkpoint(lambda x: torch.tanh(self.scale * x), x, use_reentrant=self.reentrant)
        self.scale = self.scale.add_(1) if self.in_place else self.scale + 1
        return y


def wrong(layer: Any, inputs: dict[str, Any], dtype: str = "float64") -> list[Finding]:
    answer = examined(layer, inputs, dtype=dtype, modes=("reverse",))
    assert answer.failure is None
    return [finding for finding in answer.findings if finding.severity == "error"]


def test_the_one_wrong_function_of_five() -> None:
    (found,) = wrong(Five, {"x": np.linspace(-1, 1, 6).reshape(2, 3)})
    assert (found.code, found.input) == ("GC101", "scale")
    assert found.pattern is not None
    assert found.pattern.startswith("factor 0.2")
    cause = found.cause
    assert cause is not None
    assert cause.source is not None
    assert (cause.op, cause.kind, cause.phase) == ("Scale", "wrong rule", "backward")
    line = cause.source.line(cause.span.line)
    assert line == "        return g * weight**ctx.power, forgotten, None"
    assert line[cause.span.column - 1 : cause.span.end_column - 1] == cause.text == "forgotten"
    assert cause.proof.startswith("checked in isolation at the same inputs, `Scale`")
    assert cause.detail.startswith("your backward returns ")
    assert " for `weight`; the derivative of forward is " in cause.detail


def test_a_layer_that_is_one_function_names_what_it_returns() -> None:
    (found,) = wrong(
        HalvedMatmul, {"a": [[1.0, 2.0, 5.0]], "b": [[3.0], [4.0], [6.0]]}, dtype="float32"
    )
    assert found.cause is not None
    assert (found.input, found.cause.text, found.pattern) == (
        "b",
        "0.5 * (a.T @ g)",
        "factor 0.5",
    )


def test_a_function_that_is_called_for_each_input_is_named_for_each() -> None:
    def layer(x: Any, w: Any) -> Any:
        return WrongSin.apply(x) * WrongSin.apply(w)

    found = wrong(layer, {"x": [0.3, 1.0], "w": [0.5, -0.7]})
    assert {one.input: one.cause and one.cause.text for one in found} == {
        "x": "g * torch.sin(x)",
        "w": "g * torch.sin(x)",
    }
    assert all(one.fix and one.fix.after == "g * torch.cos(x)" for one in found)


class WrongSin(Sin):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.sin(x)


class TwoReturns(Sin):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        if x.sum() > 0:
            return g * torch.sin(x)
        return g * torch.cos(x)


def test_the_return_that_ran_is_wrong_and_gets_the_fix() -> None:
    (found,) = wrong(TwoReturns, {"x": [0.3, 1.0]})
    assert found.cause is not None
    assert found.fix is not None
    assert (found.cause.text, found.fix.after) == ("g * torch.sin(x)", "g * torch.cos(x)")
    assert not wrong(TwoReturns, {"x": [-0.3, -1.0]})


def test_the_return_that_ran_is_looked_for_once_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int | None] = []

    def counted(*given: Any) -> int | None:
        looked.append(returning_line(*given))
        return looked[-1]

    monkeypatch.setattr("gradcheck_cli.checks.causes.wrong_gradients.returning_line", counted)
    found = wrong(lambda x, y: TwoReturns.apply(x * y), {"x": [0.3, 1.0], "y": [0.5, 2.0]})
    assert [one.cause is not None for one in found] == [True, True]
    assert len(looked) == 1


class Moments(torch.autograd.Function):
    """Mean and variance of rows; `needed` is the output without which there is no gradient."""

    needed = 1

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.mean(-1), x.var(-1, unbiased=False)

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        (x,) = ctx.saved_tensors
        if g[Moments.needed] is None:
            return None
        n, off = x.shape[-1], x - x.mean(-1, keepdim=True)
        parts = (1 / n + 0 * x, 2 * off / n)
        return sum(
            part * one[:, None] for part, one in zip(parts, g, strict=True) if one is not None
        )


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("needed", [0, 1])
def test_a_gradient_that_another_output_has_to_be_used_for(
    used: int, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Moments, "needed", needed)
    answer = examined(lambda x: Moments.apply(x)[used].exp(), {"x": [[0.3, 1.0, -2.0]]})
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert [finding.code for finding in found] == ["GC102"] * (used != needed)
    for finding in found:
        assert finding.cause is not None
        assert finding.cause.op == "Moments"
        assert f"where `y[{used}]` is the only output in use" in finding.cause.detail


class MappedProduct(Matmul):
    """One class for each row when called under `vmap`, made by PyTorch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Any, b: Any) -> Any:
        return a * torch.sin(b)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * torch.sin(b), g * a * torch.sin(b)


def nested_maps(a: Any, b: Any) -> Any:
    each = torch.func.vmap(MappedProduct.apply)
    return torch.func.vmap(lambda row: each(row, b))(a)


def map_of_an_inner_gradient(a: Any, b: Any) -> Any:
    return torch.func.vmap(torch.func.grad(lambda r: MappedProduct.apply(r, b).exp().sum()))(a)


@pytest.mark.parametrize(
    "layer",
    first(
        1,
        [
            nested_maps,
            map_of_an_inner_gradient,
            lambda a, b: torch.func.vmap(MappedProduct.apply, in_dims=(0, None))(a, b),
            lambda a, b: torch.func.vmap(MappedProduct.apply, in_dims=1, out_dims=1)(a, a * b),
        ],
    ),
)
def test_a_wrong_function_is_named_under_vmap(layer: Any) -> None:
    answer = examined(layer, {"a": [[1.0, 2.0, 0.5], [0.3, -1.0, 0.7]], "b": [1.1, -0.7, 2.0]})
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert {finding.code for finding in found} == {"GC101"}
    causes = [finding.cause for finding in found if finding.mode == "reverse"]
    assert {(cause.op, cause.text) for cause in causes} == {
        ("MappedProduct", "g * a * torch.sin(b)")
    }
    assert any("`MappedProduct` has no `jvp`" in note for note in answer.notes)


def test_a_jvp_of_two_arguments_has_one_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[RuleFixes] = []
    search = RuleFixes.first_working

    def counted(self: RuleFixes) -> Any:
        searches.append(self)
        return search(self)

    monkeypatch.setattr(RuleFixes, "first_working", counted)
    answer = examined(NegatedProduct, {"a": [0.3, 1.2], "b": [2.0, 0.7]}, modes=("forward",))
    found = [finding for finding in answer.findings if finding.severity == "error"]
    assert [(one.code, one.input) for one in found] == [("GC101", "a"), ("GC101", "b")]
    fixes = [one.fix for one in found]
    assert [fix and fix.after for fix in fixes] == ["s * b + a * t"] * 2
    assert len(searches) == 1


def test_a_large_function_is_told_by_products() -> None:
    (found,) = wrong(Large, {"x": np.linspace(-2, 2, 160).reshape(2, 80)})
    assert found.cause is not None
    assert (found.cause.op, found.cause.text) == ("HalvedMatmul", "0.5 * (a.T @ g)")
    assert "along a random direction" in found.cause.detail
    assert found.pattern == "factor 1/2: perhaps a mean over axis 0 of `x` where a sum is right"


@pytest.mark.parametrize(
    ("layer", "op", "text"),
    [
        (detached, "detach()", "torch.sqrt((x * x).sum()).detach()"),
        (without_grad, "torch.no_grad()", "x * x"),
        (as_data, "data", "torch.exp(x).data"),
        (in_numpy, "detach()", "x.detach()"),
        (marked, "mark_non_differentiable()", "ctx.mark_non_differentiable(both[1])"),
        (marked_product, "mark_non_differentiable()", "ctx.mark_non_differentiable(both[1])"),
    ],
)
def test_where_the_gradient_stops(layer: Any, op: str, text: str) -> None:
    every = wrong(layer, {"x": [1.0, 2.0]})
    assert every
    for found in every:
        cause = found.cause
        assert cause is not None
        assert (cause.kind, cause.op, cause.text) == ("detached path", op, text)
        assert cause.proven


def typed_like_the_input(x: Any) -> Any:
    weights = torch.ones(2).type_as(x) / 2
    counts = (weights > 0).to(x)
    return weights * counts * x.detach() * x


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forward_that_runs_again_with_other_numbers(reentrant: bool) -> None:
    (found,) = wrong(Recomputed(reentrant), {"x": [0.5, 1.0]})
    assert found.cause is not None
    assert (found.code, found.cause.kind) == ("GC101", "recomputed forward")
    assert found.cause.text.startswith("checkpoint(lambda x")
    assert found.cause.proven


def test_a_forward_that_runs_again_with_numbers_overwritten_in_place() -> None:
    (found,) = wrong(Recomputed(reentrant=False, in_place=True), {"x": [0.5, 1.0]})
    assert found.cause is not None
    assert found.cause.kind == "recomputed forward"
    assert "modified in place" in found.cause.proof


def test_a_dtype_that_is_taken_from_an_input_is_no_number_of_it() -> None:
    for found in wrong(typed_like_the_input, {"x": [1.0, 2.0]}):
        assert found.cause is not None
        assert found.cause.text == "x.detach()"


class Spectral(nn.Module):
    """PyTorch's own: its power iteration is outside of the graph, and writes to buffers."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(width, width))
        for _ in range(steps):
            self.linear(torch.zeros(1, width))

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x))


def small_term(x: Any) -> Any:
    return torch.sin(x) + 1e-7 * x.detach() ** 2


class Solved(torch.autograd.Function):
    """y = x cos(y) / 2 by iteration; the derivative is that of the solution."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y, off = torch.zeros_like(x), 1.0
        while off > 3e-8:
            y, last = 0.5 * torch.cos(y) * x, y
            off = (y - last).abs().max().item()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 0.5 * torch.cos(y) / (1 + 0.5 * x * torch.sin(y))


class SolvedWrongly(Solved):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 0.5 * torch.cos(y) / (1 + 0.5 * x * torch.cos(y))


class Nearly(Sin):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 1.0000001 * Sin.backward(ctx, g)


class Dropped(Sin):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return Sin.forward(ctx, x) + 1e-7 * x * x


@pytest.mark.parametrize(
    ("layer", "x", "kind"),
    [
        (Spectral(2, 60), np.array([[0.3, -0.5]]), "detached path"),
        (Spectral(64, 300), np.linspace(-1, 1, 128).reshape(2, 64), "detached path"),
        (small_term, np.array([0.3, 0.9]), "detached path"),
        (Solved, np.array([0.3, 0.9]), "iterative solution"),
    ],
)
def test_an_approximation_whose_error_float32_cannot_see(layer: Any, x: Any, kind: str) -> None:
    """It is told with its size, and the check passes: no rule is wrong."""
    answer = examined(layer, {"x": x}, modes=("reverse",))
    (found,) = answer.findings
    assert (found.code, found.severity) == ("GC305", "warning")
    assert found.cause is not None
    assert found.cause.kind == kind
    assert "an approximation with a relative error of" in found.message
    assert all(check.status == "passed" for check in answer.checks)
    passed = [one.rule for check in answer.checks for one in check.passed_by]
    assert "documented" in passed


@pytest.mark.parametrize("layer", [Nearly, Dropped, SolvedWrongly])
def test_a_wrong_rule_is_no_approximation_however_near_it_is(layer: Any) -> None:
    (found,) = wrong(layer, {"x": [0.3, 0.9]})
    assert found.code == "GC101"
    assert found.cause is not None
    assert found.cause.kind == "wrong rule"


def drawn(x: Any) -> Any:
    return torch.distributions.Gamma(x.exp(), torch.ones_like(x)).rsample()


def shares(x: Any) -> Any:
    return torch.distributions.Dirichlet(x.exp()).rsample()


@pytest.mark.parametrize("layer", [drawn, shares])
def test_what_is_drawn_has_the_derivative_of_a_quantile(layer: Any) -> None:
    """Differences follow the numbers of one seed, which are no quantile: nothing is decided."""
    answer = examined(layer, {"x": [0.3, 0.9, -0.4]}, modes=("reverse",), dtype="float64")
    (found,) = (finding for finding in answer.findings if finding.code != "GC601")
    assert found.code == "GC501"
    assert found.cause is not None
    assert found.cause.kind == "reparameterised sample"
    assert {one.rule for check in answer.checks for one in check.passed_by} == {"undecided"}


def test_a_wrong_rule_before_a_draw_is_wrong() -> None:
    def layer(x: Any) -> Any:
        return SolvedWrongly.apply(x) + 1e-3 * drawn(x)

    found = [f for f in wrong(layer, {"x": [0.3, 0.9]}) if f.code != "GC601"]
    assert {finding.code for finding in found} == {"GC101"}
    assert all(f.cause is not None and f.cause.kind == "wrong rule" for f in found)


def test_a_detached_term_that_float32_sees_is_an_error() -> None:
    (found,) = wrong(lambda x: torch.sin(x) + 1e-4 * x.detach() ** 2, {"x": [0.3, 0.9]})
    assert found.code == "GC101"


def test_what_is_cut_is_known_where_it_cannot_be_let_through() -> None:
    """The power iteration writes to buffers, which autograd refuses; held constant it explains the
    whole error."""
    layer = Spectral(3, 0)
    layer.linear.parametrizations.weight[0]._v.copy_(torch.tensor([1.0, 0.0, 0.0]))
    (found,) = wrong(layer, {"x": [[0.3, -0.5, 1.0]]})
    assert found.code == "GC101"
    assert found.cause is not None
    assert (found.cause.kind, found.cause.op) == ("detached path", "torch.no_grad()")
    assert "held constant" in found.cause.proof


def test_a_parameter_without_a_gradient() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, x: Any) -> Any:
            return torch.exp(x) * self.gain.detach()

    (found,) = wrong(Scaled, {"x": [1.0, 2.0]})
    assert (found.code, found.input) == ("GC102", "gain")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.text) == ("detached path", "self.gain.detach()")


def test_a_path_that_is_cut_in_code_without_lines_is_told_by_its_operation() -> None:
    layer = eval("lambda x: x.detach()")
    (found,) = check(layer, torch.ones(2), dtypes=["float32"], modes=["reverse"]).findings
    assert found.cause.story == "with `detach()` in the graph there is a gradient"


def test_a_number_that_is_overwritten_behind_the_back_of_the_graph() -> None:
    def shifted(x: Any) -> Any:
        y = torch.exp(x)
        y.data.add_(1)  # from what stood there before, the derivative would be computed
        return y

    (found,) = wrong(shifted, {"x": [1.0, 2.0]})
    assert found.cause is not None
    assert (found.cause.op, found.cause.text) == ("data", "y.data")
    assert "modified in place" in found.cause.proof


def test_a_right_layer_in_which_the_gradient_stops_has_no_findings() -> None:
    def right(x: Any) -> Any:
        top = x.max().detach()
        return torch.log(torch.exp(x - top).sum()) + top

    assert wrong(right, {"x": [1.0, 2.0]}) == []


class NumpyPair:
    """A forward and a backward for NumPy arrays."""

    def forward(self, x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    def backward(self, g: Any, x: Any, w: Any) -> Any:
        y = np.tanh(x @ w)
        d = g * (1 - y * y)
        return d @ w.T, x.T @ (g * (1 - y))


def test_a_pair_of_numpy_functions_is_told_by_what_it_returns() -> None:
    problem = layer_problem(
        NumpyPair(), {"x": [[1.0, 2.0]], "w": [[0.3], [0.4]]}, modes=("reverse",)
    )
    implementation = replace(problem.implementation, engine="numpy")
    engine = NumpyEngine()
    engine.load()
    answer = examine(engine, replace(problem, implementation=implementation))
    (found,) = (finding for finding in answer.findings if finding.severity == "error")
    assert found.cause is not None
    assert (found.input, found.cause.kind, found.cause.text) == (
        "w",
        "wrong rule",
        "x.T @ (g * (1 - y))",
    )


class Assign(torch.autograd.Function):
    """Writes to a copy of a buffer. Its gradient for the buffer ignores what was overwritten, which
    matters only where the buffer depends on an input."""

    @staticmethod
    def forward(ctx: Any, buffer: Any, value: Any) -> Any:
        return torch.cat([value, buffer[value.numel() :]])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g[:2]


class Half(Sin):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Sin.backward(ctx, g) / 2


def harmless_and_half(x: Any) -> Any:
    return Assign.apply(torch.zeros_like(x) * x, x[:2].exp()) + Half.apply(x)


def harmless_and_detached(x: Any) -> Any:
    return Assign.apply(torch.zeros_like(x) * x, x[:2].exp()) * x.detach()


def written_and_detached(x: Any) -> Any:
    return Assign.apply(x.cos(), x[:2].exp())


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        (harmless_and_half, Half.__qualname__),
        (harmless_and_detached, "detach()"),
        (written_and_detached, Assign.__qualname__),
    ],
)
def test_a_wrong_function_that_nothing_depends_on_is_not_named(layer: Any, op: str) -> None:
    answer = examined(layer, {"x": [0.3, 1.2, 0.7]}, modes=("reverse",))
    (finding,) = answer.findings
    assert finding.code == "GC101"
    assert finding.cause is not None
    assert finding.cause.op == op
    assert finding.cause.proven


def test_a_function_that_cannot_be_held_is_a_possible_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: TorchSubject, declared: Declared) -> None:
        raise NotDeclarable(
            declared.found[0].design, "is called a different number of times nearby"
        )

    monkeypatch.setattr(TorchSubject, "hold", refused)
    answer = examined(lambda x: Half.apply(x) * x.sum(), {"x": [0.3, 1.2]}, modes=("reverse",))
    (finding,) = answer.findings
    assert finding.cause is not None
    assert finding.cause.op == Half.__qualname__
    assert not finding.cause.proven
    assert "could not be shown" in finding.cause.proof
