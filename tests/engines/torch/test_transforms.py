"""Derivatives inside the region that `torch.compile` compiles."""

from __future__ import annotations

from typing import Any

import torch

from gradcheck_cli.engines.torch.passes import CompiledLayerTorch


def test_what_a_function_gives_keeps_its_places() -> None:
    """A target and a part of the rest that are None stay None, and a cotangent may be."""
    fw = CompiledLayerTorch("float64", "cpu")
    assert not fw.is_inside

    def function(sources: list[Any], _: Any = None) -> Any:
        x, y = sources
        return [x * y, None, torch.sin(x)], (None, x + y)

    def derivatives(x: Any, y: Any, one: Any) -> Any:
        targets, rest, vjp = fw.vjp(function, [x, y])
        pushed = fw.jvp(function, [x, y], [one, None])[1]
        return targets, rest, vjp([one, None, None]), pushed, fw.is_inside

    compiled = torch.compile(derivatives, backend="eager", fullgraph=True)
    x, y, one = (torch.tensor([n], dtype=torch.float64) for n in (0.5, 3.0, 1.0))
    targets, rest, gradients, pushed, inside = compiled(x, y, one)
    assert inside
    assert [None if one is None else one.item() for one in targets] == [1.5, None, torch.sin(x)]
    assert (rest[0], rest[1].item()) == (None, 3.5)
    assert [one.item() for one in gradients] == [3.0, 0.5]
    assert [None if one is None else one.item() for one in pushed] == [3.0, None, torch.cos(x)]
