"""What is told of layers that `torch.compile` has compiled, by what Dynamo notes of its work."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from gradcheck_cli import check
from gradcheck_cli.engines.layer.declared import Declared
from gradcheck_cli.engines.torch import compiled
from gradcheck_cli.engines.torch.compiler import as_one_graph
from gradcheck_cli.engines.torch.engine import TorchCompileEngine, TorchEngine
from tests.checks.making import subject_of


def test_another_layer_makes_dynamo_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo

    resets: list[str] = []
    monkeypatch.setattr(compiled, "_COMPILED_LAST", [])
    monkeypatch.setattr(torch._dynamo, "reset_code_caches", lambda: resets.append("reset"))
    for layer in ("first", "first", "second", "first"):
        compiled.forget_other_layers(layer)
    assert len(resets) == 3


@pytest.mark.parametrize("what", ["a formula", "a layer"])
def test_what_was_compiled_for_other_sizes_does_not_matter(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any size Inductor writes other code, and `torch.erf` of it is wrong near 0."""
    shapes: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        shapes.extend(one.shape if isinstance(one, torch.Tensor) else one for one in inputs)
        return graph.forward

    def layer(x: Any) -> Any:
        return torch.erf(x)

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    for size in (8, 4, 2):
        if what == "a layer":
            subject_of(TorchCompileEngine(), layer, x=np.ones(size))
        else:
            as_one_graph(torch, layer)(torch.ones(size))
    assert shapes == [(8,), (4,), (2,)]


@pytest.mark.parametrize(
    ("reasons", "notes"),
    [
        ([None, "0/1: G['count'] == 3  # return x * count"], ["each value of `G['count']`"]),
        (["0/1: tensor 'x' dtype mismatch. expected Float, actual Double"], []),
        ([None], []),
    ],
    ids=["a value", "a dtype", "the first time"],
)
def test_a_value_that_is_compiled_anew_is_named(
    monkeypatch: pytest.MonkeyPatch, reasons: list[str | None], notes: list[str]
) -> None:
    def noted_as(reason: str | None) -> SimpleNamespace:
        return SimpleNamespace(recompile_reason=reason, fail_type=None, co_name="layer")

    noted = [noted_as("0/1: G['before'] == 1")]
    monkeypatch.setattr(compiled, "_compilations", lambda: tuple(noted))
    seen = compiled.Compilations(torch.sin)
    noted += [noted_as(reason) for reason in reasons]
    found = list(seen.notes())
    assert len(found) == len(notes)
    assert all(note in one for note, one in zip(notes, found, strict=True))


def broken_inside(x: Any) -> Any:
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return y * x


def broken_twice(x: Any) -> Any:
    y = broken_inside(x) + x
    torch._dynamo.graph_break()
    return y * x


def as_traced(graph: Any, _: Any) -> Any:
    return graph.forward


@pytest.mark.parametrize(("layer", "count"), [(broken_inside, 1), (broken_twice, 3)])
def test_the_places_of_graph_breaks_are_named_once(layer: Any, count: int) -> None:
    """Dynamo counts a break again in each function that it is inlined into."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: layer(x), backend=as_traced)
    notes: list[str] = []
    for dtype in (torch.float32, torch.float64):
        seen = compiled.Compilations(function)
        function(torch.ones(2, dtype=dtype))
        notes += seen.notes()
    first = broken_inside.__code__.co_firstlineno
    assert len(set(notes)) == 1
    assert f"line {first + 2} of broken_inside" in notes[0]
    assert notes[0].count("line ") == count


def test_a_graph_that_was_broken_before_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(compiled, "_BROKEN", WeakSet())
    function = torch.compile(broken_inside, backend=as_traced)
    function(torch.ones(3))
    (note,) = compiled.Compilations(function).notes()
    assert "breaks its graph" in note
    assert not list(compiled.Compilations(function).notes())


@pytest.mark.parametrize("part", ["all", "the second half"])
def test_what_runs_uncompiled_after_an_error_has_a_note(part: str) -> None:
    def backend(graph: Any, _: Any) -> Any:
        if part == "all" or any("mul" in str(node.target) for node in graph.graph.nodes):
            raise NotImplementedError("no products")
        return aot_autograd(fw_compiler=as_traced)(graph, _)

    def layer(x: Any) -> Any:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return y * x

    torch._dynamo.reset()
    function = torch.compile(layer, backend=backend)
    with torch._dynamo.config.patch(suppress_errors=True):
        subject, again = (subject_of(TorchEngine(), function, x=[0.5, 1.5]) for _ in range(2))
    assert (compiled.FELL_BACK in again.notes) == (part == "all")
    assert any("uncompiled: BackendCompilerFailed" in note for note in subject.notes)
    assert (compiled.FELL_BACK in subject.notes) == (part == "all")
    assert (compiled.NOTE in subject.notes) == (part != "all")


def test_a_compiler_that_is_switched_off_has_a_note() -> None:
    with torch._dynamo.config.patch(disable=True):
        subject = subject_of(TorchEngine(), torch.compile(torch.sin), x=[0.5, 1.5])
    assert compiled.FELL_BACK in subject.notes
    assert compiled.NOTE not in subject.notes


def test_what_is_no_stage_runs_through_all_stages() -> None:
    assert isinstance(compiled.at_stage(torch, compiled.INDUCTOR), nullcontext)


def test_an_uncompiled_graph_is_none_that_was_compiled() -> None:
    x: Any = torch.ones(2, requires_grad=True)
    assert not compiled.is_compiled([(x * x).sum(), x.detach()])


def test_what_is_declared_is_seen_in_a_compiled_layer_as_it_was_written() -> None:
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, upstream: torch.Tensor) -> torch.Tensor:
            return 0.5 * upstream

    def layer(x: torch.Tensor) -> torch.Tensor:
        return Step.apply(x) * x

    subject = subject_of(TorchEngine(), torch.compile(layer, backend="aot_eager"), x=[0.5, 1.5])
    declared = Declared({}, {}, {})
    subject.hold(declared)
    assert "Step" in declared.names


def test_bounds_are_looked_for_in_a_compiled_layer_as_it_was_written() -> None:
    """What Dynamo cannot trace, as a mode that watches, it would leave uncompiled from then on."""
    compiled_for: list[torch.dtype] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled_for.append(inputs[0].dtype)
        return graph.forward

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.clamp(x, min=1e-6))

    subject = subject_of(TorchEngine(), torch.compile(layer, backend=backend), x=[1e-8, 0.5])
    subject.value({})
    compiled_for.clear()
    (bound,) = subject.unclipped_gradients(np.eye(2))
    assert bound.pole == "log"
    assert not compiled_for
    torch.compile(layer, backend=backend)(torch.ones(2))
    assert compiled_for == [torch.float32]


@pytest.mark.parametrize("derivatives_too", [True, False])
def test_a_users_compiled_layer_is_compiled_once_for_each_dtype(derivatives_too: bool) -> None:
    from torch._dynamo.backends.common import aot_autograd

    seen: list[torch.dtype] = []
    plain = aot_autograd(fw_compiler=lambda graph, _: graph.forward)

    def backend(graph: Any, examples: Any) -> Any:
        arrays = [one for one in examples if isinstance(one, torch.Tensor)]  # others are strides
        seen.append(arrays[0].dtype)
        return plain(graph, examples) if derivatives_too else graph.forward

    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.sin(x @ w)

    torch.manual_seed(0)
    report = check(torch.compile(layer, backend=backend), torch.randn(3, 2), torch.randn(2, 2))
    assert report.passed
    assert seen == [torch.float32, torch.float64]
    assert any("another memory layout" in note for note in report.results[0].notes)


def test_the_settings_of_the_compiler_are_changed_once_a_check_and_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._dynamo import config

    before, seen, changes = config.recompile_limit, set[int](), []
    change = type(config).__setattr__

    def counted(self: Any, name: str, value: object) -> None:
        changes.append(name)
        change(self, name, value)

    def layer(x: torch.Tensor) -> torch.Tensor:
        seen.add(config.recompile_limit)
        return torch.sin(x)

    monkeypatch.setattr(type(config), "__setattr__", counted)
    assert check(layer, torch.ones(2), order=2).passed
    assert before != compiled.MOST_COMPILED
    assert (config.recompile_limit, seen) == (before, {compiled.MOST_COMPILED})
    assert changes.count("recompile_limit") <= 4  # derivatives and behaviour, to and fro
