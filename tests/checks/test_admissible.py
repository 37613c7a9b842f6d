"""Inputs of a kind are never given to a layer as anything else, and errors along it are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gradcheck_cli import UsageError, check
from gradcheck_cli.checks.admissible import Admissible
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.run.in_process import run_in_process
from gradcheck_cli.specfile import read

LAYERS = '''\
import torch


def proper(R):
    eye = torch.eye(R.shape[-1], dtype=R.dtype).expand_as(R)
    assert torch.allclose(R.mT @ R, eye, atol=1e-5), "no rotation"


def log(R):
    proper(R)
    angle = torch.arccos((torch.diagonal(R, dim1=-2, dim2=-1).sum(-1) - 1) / 2)
    skew = (R - R.mT) / (2 * torch.sin(angle))[..., None, None]
    return torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1) * angle[..., None]


def likelihood(C, x):
    assert torch.equal(C, C.mT), "not symmetric"
    low = torch.linalg.cholesky(C)
    z = torch.linalg.solve_triangular(low, x[:, None], upper=False)
    return (z**2).sum() + 2 * torch.log(torch.diagonal(low)).sum()


def entropy(p):
    assert torch.allclose(p.sum(-1), torch.ones(()).to(p), atol=1e-5), "no shares"
    assert (p > 0).all(), "negative"
    return -(p * p.log()).sum()


def distance(x, y):
    for one in (x, y):
        assert torch.allclose(one.norm(), torch.ones(()).to(x), atol=1e-5), "not on the sphere"
    return torch.arccos((x * y).sum())


class Trace(torch.autograd.Function):
    """Its gradient is the one along the rotations alone, as libraries of Lie groups give it."""

    @staticmethod
    def forward(ctx, R, factor=1.0):
        proper(R)
        ctx.save_for_backward(R)
        ctx.factor = factor
        return (R * torch.arange(9.0).to(R).reshape(3, 3)).sum()

    @staticmethod
    def backward(ctx, g):
        (R,) = ctx.saved_tensors
        along = R.mT @ (g * torch.arange(9.0).to(R).reshape(3, 3))
        return ctx.factor * R @ (along - along.mT) / 2, None


def large(R):
    proper(R)
    return torch.sin(R.reshape(R.shape[0], -1)) @ torch.linspace(-1, 1, 9, dtype=R.dtype)


def wrong(R):
    return large(R) + 0.01 * R[:, 0, 1].detach()
'''


def checked(folder: Path, layer: str, inputs: str, more: str = "", **options: Any) -> SpecResult:
    (folder / "layers.py").write_text(LAYERS)
    (folder / "a.yaml").write_text(
        f"inputs: {inputs}\nimplementations: {{torch: {{target: layers.py:{layer}{more}}}}}\n"
    )
    (spec,), errors = read(str(folder / "a.yaml"))
    assert errors == []
    return run_in_process(spec, RunOptions(**options))


WIDE = {"dtypes": Layered(override=("float64",)), "modes": Layered(override=("reverse",))}
ROTATION = "{R: {kind: rotation, shape: [3, 3], seed: 0}}"


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        ("log", "{R: {kind: rotation, shape: [2, 3, 3], seed: 0}}"),
        ("likelihood", "{C: {kind: positive_definite, shape: [3, 3], seed: 0}, x: [1, 2.5, -3]}"),
        ("entropy", "{p: {kind: simplex, shape: [5], seed: 0}}"),
        (
            "distance",
            "{x: {kind: unit_vector, shape: [4], seed: 0}, y: {value: [0, .6, .8, 0], "
            "kind: unit_vector}}",
        ),
        ("Trace", ROTATION),
        ("large", "{R: {kind: rotation, shape: [40, 3, 3], seed: 0}}"),
    ],
)
def test_right_layers_pass(tmp_path: Path, layer: str, inputs: str) -> None:
    result = checked(tmp_path, layer, inputs)
    assert [f.message for f in result.findings if f.severity != "note"] == []
    assert {one.status for one in result.checks} == {"passed"}
    assert any("stays of its kind" in note for note in result.notes)


def test_a_gradient_along_the_kind_is_right_there_alone(tmp_path: Path) -> None:
    written = "[[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, 1]]"
    found = checked(tmp_path, "Trace", f"{{R: {written}}}", **WIDE).findings
    assert "error" in {f.severity for f in found}
    of_a_kind = f"{{R: {{value: {written}, kind: rotation}}}}"
    assert checked(tmp_path, "Trace", of_a_kind, **WIDE).findings == ()


def test_errors_along_the_kind_are_found(tmp_path: Path) -> None:
    found = checked(tmp_path, "Trace", ROTATION, ", args: [1.001]", **WIDE).findings
    assert {(f.code, f.input) for f in found} == {("GC101", "R")}
    inputs = "{R: {kind: rotation, shape: [40, 3, 3], seed: 0}}"
    found = checked(tmp_path, "wrong", inputs, **WIDE).findings
    assert {(f.code, f.input) for f in found if f.severity == "error"} == {("GC101", "R")}
    assert {f.cause.kind for f in found if f.cause} == {"detached path"}


def test_in_python() -> None:
    def norm(x):
        assert abs(float(x.norm()) - 1) < 1e-5
        return x[0] * 2

    x = torch.tensor([0.6, 0.8])
    assert check(norm, x, kinds={"x": "unit_vector"}).passed
    for kinds, words in (
        ({"y": "simplex"}, "`kinds` names `y`"),
        ({"x": "spin"}, "there is no kind"),
        ({"x": "simplex"}, "not of kind simplex"),
    ):
        with pytest.raises(UsageError, match=words):
            check(norm, x, kinds=kinds)


def test_no_search_proves_anything_of_a_layer_whose_inputs_have_kinds() -> None:
    layer = object.__new__(Admissible)  # what it says does not depend on the layer
    found = layer.gradient_program(layer, ["R"], [])
    assert found.program is None
    assert found.reason == "not traced: an input has a kind"
