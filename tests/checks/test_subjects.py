"""What a spec asks of a layer's leaves, and the precisions that the layer has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli import check
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.subjects import BESIDE
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from tests.checks.making import layer_problem, torch_engine

PRODUCT = SimpleNamespace(forward=lambda x, y: x * y, backward=lambda up, x, y: (up * y, up * x))


def examined(
    layer: Any, wrt: tuple[str, ...] = (), dtype: str = "float64", data: str = ""
) -> LayerAnswer:
    problem = layer_problem(layer, {"x": [0.5, 1.0], "y": [2.0, 3.0]}, dtype=dtype)
    mine = replace(problem.implementation, engine="numpy", target="product")
    point = {
        name: replace(entry, requires_grad=name != data)
        for name, entry in problem.spec.points[0].items()
    }
    spec = replace(problem.spec, wrt=wrt, points=(point,), implementations=(mine,))
    return examine(NumpyEngine(), replace(problem, spec=spec, implementation=mine))


def checked(answer: LayerAnswer) -> set[str]:
    assert answer.failure is None
    return {check.input for check in answer.checks}


def test_only_what_is_asked_for_is_differentiated() -> None:
    assert checked(examined(PRODUCT)) == {"x", "y"}
    assert checked(examined(PRODUCT, ("y",))) == {"y"}
    assert checked(examined(PRODUCT, data="y")) == {"x"}


def test_a_name_that_has_no_gradient_is_a_mistake_of_the_spec() -> None:
    answer = examined(PRODUCT, ("y", "z"))
    (finding,) = answer.findings
    assert finding.code == "GC903"
    assert finding.message == "`wrt`: the layer has no gradient for `z`"
    assert finding.detail == "it has: x, y"


def only(dtype: type) -> SimpleNamespace:
    def forward(x: Any, y: Any) -> Any:
        if x.dtype != dtype:
            raise TypeError(f"I take {dtype.__name__}")
        return x * y

    return SimpleNamespace(forward=forward, backward=PRODUCT.backward)


def test_a_layer_of_one_precision_is_checked_in_that_and_left_out_in_others() -> None:
    narrow = examined(only(np.float32), dtype="float32")
    assert checked(narrow) == {"x", "y"}
    assert narrow.findings == ()
    assert narrow.notes[0].startswith("float32 is the highest precision it runs in (TypeError")
    other = examined(only(np.float32))
    assert (other.checks, other.findings, other.failure) == ((), (), None)
    assert other.notes == (
        "float64 was left out: the layer does not run in it (TypeError: I take float32)",
    )


@pytest.mark.parametrize(("factor", "codes"), [(1.0, set()), (1.5, {"GC101"})])
def test_a_derivative_that_runs_in_one_precision_is_checked_in_that(
    factor: float, codes: set[str]
) -> None:
    def backward(up: Any, x: Any, y: Any, out: Any) -> Any:
        if x.dtype != np.float32:
            raise TypeError("my backward takes float32")
        return up * y * np.float32(factor), up * x

    layer = SimpleNamespace(forward=PRODUCT.forward, backward=backward)
    narrow = examined(layer, dtype="float32")
    assert narrow.failure is None
    assert {finding.code for finding in narrow.findings if finding.severity == "error"} == codes
    told = any(note.startswith("its derivative runs in float32 only") for note in narrow.notes)
    assert told == bool(codes)  # a right one needs no other precision
    wide = examined(layer)
    assert wide.failure is not None
    assert "my backward takes float32" in wide.failure.message


@pytest.mark.parametrize("call", [1, 2])
def test_a_layer_that_raises_once_is_not_one_of_a_lower_precision(call: int) -> None:
    calls = []

    def moody(x: Any) -> Any:
        calls.append(x.dtype)
        if len(calls) == call:
            raise RuntimeError("not now")
        return torch.sin(x)

    answer = examine(torch_engine(), layer_problem(moody, {"x": [0.3, -1.2]}, dtype="float32"))
    assert answer.failure is not None
    assert "not now" in answer.failure.message


def test_where_random_numbers_depend_on_the_dtype_its_own_decide() -> None:
    def forward(x: Any, y: Any) -> Any:
        return x * y * np.random.random(2 if x.dtype == np.float32 else 3)[-2:].astype(x.dtype)

    def backward(up: Any, x: Any, y: Any, out: Any) -> Any:
        return up * out / x, up * out / y

    answer = examined(SimpleNamespace(forward=forward, backward=backward), dtype="float32")
    assert answer.notes[0] == "it draws different random numbers in float64: checked in float32"
    assert [finding.code for finding in answer.findings if finding.severity == "error"] == []


def test_a_layer_may_change_the_current_directory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import os, torch\n\ndef layer(x):\n    os.chdir('/')\n    return torch.sin(x)\n"
    (tmp_path / "moving.py").write_text(text, "utf-8")
    problem = layer_problem("moving.py:layer", {"x": 0.5}, dtype="float32")
    here = replace(problem.implementation, folder="")
    for behaviour in (False, True):
        asked = replace(problem, implementation=here, behaviour=behaviour)
        answer = examine(torch_engine(), asked)
        assert answer.failure is None
        assert answer.findings == ()
        assert not any("cannot read" in note for note in answer.notes)


def unit(x: Any) -> Any:
    """Refuses what is outside of [0, 1]."""
    if x.min() < 0 or x.max() > 1:
        raise ValueError("numbers in [0, 1] expected")
    return torch.sin(x).sum()


@pytest.mark.parametrize("shape", [(2,), (40, 40)])
def test_a_layer_may_refuse_points_beside_its_own(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    for dtype in ("float32", "float64"):
        answer = examine(torch_engine(), layer_problem(unit, {"x": x}, dtype=dtype))
        assert answer.failure is None
        assert answer.findings == ()


def test_a_layer_that_raises_at_every_other_point_is_told_of_its_domain() -> None:
    def layer(x: Any) -> Any:
        if x != 0.5:
            raise ValueError("only a half")
        return torch.sin(x)

    answer = examine(torch_engine(), layer_problem(layer, {"x": 0.5}))
    assert answer.failure is not None
    assert BESIDE in answer.failure.detail


class Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise ValueError("no inverse")


def test_a_layer_whose_backward_alone_raises_is_told_so() -> None:
    answer = examine(torch_engine(), layer_problem(Refusing.apply, {"x": 0.5}))
    assert answer.failure is not None
    words = "the layer runs, but its derivative raises ValueError: no inverse"
    assert answer.failure.message == words


class Kernel(torch.autograd.Function):
    """Refuses to be differentiated by its first argument."""

    @staticmethod
    def forward(ctx: Any, data: Any, scale: Any) -> Any:
        if ctx.needs_input_grad[0]:
            raise RuntimeError("no gradient by the data")
        ctx.save_for_backward(data)
        return data * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (data,) = ctx.saved_tensors
        return None, (g * data).sum()


def test_data_requires_no_gradient() -> None:
    problem = layer_problem(Kernel, {"data": [1.0, 2.0], "scale": 3.0}, modes=("reverse",))
    point = problem.spec.points[0]
    data = replace(point["data"], requires_grad=False)
    for spec in (
        replace(problem.spec, points=({**point, "data": data},)),
        replace(problem.spec, wrt=("scale",)),
    ):
        for behaviour in (False, True):
            asked = replace(problem, spec=spec, behaviour=behaviour)
            answer = examine(torch_engine(), asked)
            assert answer.failure is None
            assert answer.findings == ()
            assert bool(answer.checks) is not behaviour


@pytest.mark.parametrize("wrong", [1.0, 1.5])
@pytest.mark.parametrize("dtypes", [["float32"], ["float32", "float64"]])
def test_an_array_that_the_first_call_leaves_is_there_in_every_precision(
    dtypes: list[str], wrong: float
) -> None:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, y_bar: Any) -> Any:
            return y_bar * torch.cos(ctx.saved_tensors[0]) * wrong

    class Centred:
        def __init__(self) -> None:
            self.x: Any = None

        def __call__(self, x: Any) -> Any:
            self.x = x.detach().clone() if self.x is None else self.x
            return Sine.apply(x) - 0.5 * self.x.to(x.dtype)

    report = check(Centred(), torch.tensor([0.5, 1.0]), dtypes=dtypes)
    (result,) = report.results
    assert {finding.code for finding in result.findings} == ({"GC101"} if wrong != 1.0 else set())
    assert any("the first call left `self.x` in the layer" in note for note in result.notes)


def _sine(jvp: Any, outputs: int = 1) -> Any:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return torch.sin(x) if outputs == 1 else (torch.sin(x), x > 0)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            if outputs == 2:
                ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, g: Any, *_: Any) -> Any:
            return g * torch.cos(ctx.saved_tensors[0])

    Sine.jvp = staticmethod(jvp)
    return Sine


def test_a_jvp_that_gives_none_is_no_lack_of_forward_mode() -> None:
    problem = layer_problem(_sine(lambda ctx, t: None), {"x": [0.3, 1.2]})
    (found,) = examine(torch_engine(), problem).findings
    assert (found.code, found.mode) == ("GC103", "forward")
    assert "no tensor in place of a tangent" in found.message


def test_of_an_output_without_derivatives_a_jvp_may_give_none() -> None:
    def jvp(ctx: Any, t: Any) -> Any:
        return t * torch.cos(ctx.saved_tensors[0]), None

    answer = examine(torch_engine(), layer_problem(_sine(jvp, 2), {"x": [0.3, 1.2]}))
    assert {one.mode for one in answer.checks} == {"reverse", "forward"}
    assert not answer.findings
