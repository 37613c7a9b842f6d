"""Dense layers, each with one mistake in its derivative that a check of a large layer must find: in
few entries or in all, in value or in sign, in one mode, or only for some numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

SAMPLES, WIDTH = 16, 128

Gradients = tuple[Any, Any, Any]
"""By the input, the matrix and the bias."""
Change = Callable[[Any, Any, Gradients], Any]
"""From the right gradient by one of them, the upstream one and all three to a wrong one."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in the gradient with respect to one array, which is found as one of these
    `codes`."""

    leaf: str
    change: Change
    codes: tuple[str, ...] = ("GC101",)


def _all(leaf: str, change: Callable[[Any], Any], *codes: str) -> Mistake:
    """A mistake in the whole gradient, which may be written to."""
    return Mistake(leaf, lambda found, g, given: change(found.clone()), codes or ("GC101",))


def _at(leaf: str, place: Any, change: Callable[[Any], Any]) -> Mistake:
    """A mistake in a part of the gradient."""

    def changed(gradient: Any) -> Any:
        gradient[place] = change(gradient[place].clone())
        return gradient

    return _all(leaf, changed)


def _clipped(gradient: Any) -> Any:
    most = 2.0 * gradient.square().mean().sqrt()
    return gradient.clamp(-most, most)


MISTAKES: Mapping[str, Mistake] = {
    "a block": _at("w", np.s_[32:48, 64:80], lambda part: 1.01 * part),
    "a bias": _at("b", 3, lambda part: part + 1.0),
    "a scale": _all("w", lambda part: (1 + 1e-3) * part),
    "negative inputs": Mistake(
        "x", lambda found, g, given: torch.where(given[0] < -1.0, 0.9 * found, found)
    ),
    "half precision": _all(
        "w", lambda part: part.to(torch.bfloat16).to(part.dtype), "GC101", "GC301"
    ),
    "a row": _at("w", 7, lambda part: 1.01 * part),
    "a column": _at("w", np.s_[:, 9], lambda part: 0.99 * part),
    "a transposed block": _at("w", np.s_[:16, :16], lambda part: part.T),
    "an entry": _at("w", (5, 9), lambda part: part + 3.0),
    "a zero row": _at("w", -1, torch.zeros_like),
    "the sign of the matrix": _all("w", torch.neg),
    "the sign of the bias": _all("b", torch.neg),
    "biases that are not summed": _all("b", lambda part: part / SAMPLES),
    "a sample of the input": _at("x", 3, lambda part: 1.02 * part),
    "a column of the input": _at("x", np.s_[:, 11], torch.zeros_like),
    "the scale of the input": _all("x", lambda part: part / (1 + 1e-3)),
    "a sample twice": Mistake("w", lambda found, g, given: found + torch.outer(given[0][0], g[0])),
    "a sample less": Mistake("w", lambda found, g, given: given[0][:-1].T @ g[:-1]),
    "the matrix transposed": Mistake("x", lambda found, g, given: g @ given[1]),
    "clipped": _all("w", _clipped),
    "rolled": _all("w", lambda part: part.roll(1, 1)),
    "few digits": _all("x", lambda part: part + 1e-5 * part.abs().max() * torch.cos(1e4 * part)),
}


@dataclass(frozen=True)
class Affine:
    """activation(x @ w + b), with a `mistake` that is one of MISTAKES, or none (""). In
    `forward_mode`, the tangent of the product has a mistake instead of the gradients."""

    mistake: str = ""
    activation: Callable[[Any], Any] = torch.tanh
    forward_mode: bool = False

    def __call__(self, x: Any, w: Any, b: Any) -> Any:
        return self.activation(_Product.apply(x, w, b, self))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, w: Any, b: Any, layer: Affine) -> Any:
        return x @ w + b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *given, ctx.layer = inputs
        ctx.save_for_backward(*given)
        ctx.save_for_forward(*given)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w, b = ctx.saved_tensors
        found = {"x": g @ w.T, "w": x.T @ g, "b": g.sum(0)}
        if ctx.layer.mistake:
            one = MISTAKES[ctx.layer.mistake]
            found[one.leaf] = one.change(found[one.leaf], g, (x, w, b))
        return *found.values(), None

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any, b_dot: Any, _: Any) -> Any:
        x, w, _ = ctx.saved_tensors
        parts = [
            0.0 if x_dot is None else x_dot @ w,
            0.0 if w_dot is None else x @ w_dot,
            0.0 if b_dot is None else b_dot,
        ]
        if ctx.layer.forward_mode:
            parts[0] = parts[0] * 1.01
        return parts[0] + parts[1] + parts[2]


def inputs() -> dict[str, Any]:
    """Inputs of ordinary sizes."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((SAMPLES, WIDTH)),
        "w": rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5,
        "b": 0.1 * rng.standard_normal(WIDTH),
    }
