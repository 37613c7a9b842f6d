"""PyTorch layers that gradcheck compiles together with every derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.torch.compiler import compiled_derivative
from gradcheck_cli.engines.torch.layer import TorchSubject
from gradcheck_cli.engines.torch.passes import CompiledLayerTorch


class CompiledTorchSubject(TorchSubject):
    """A user's layer under `torch.compile`. Reverse mode differentiates the compiled code, as a
    training step does. Forward mode and second derivatives are `torch.func` transforms inside the
    compiled region."""

    framework = CompiledLayerTorch
    compiles = True
    _stage = ""
    _no_jvp: str | None = None  # why it has no forward mode; "" if it has one, None if unknown

    @contextmanager
    def forward_mode(self, names: Sequence[str]) -> Iterator[None]:
        """Raises Unsupported for a Function without a `jvp`: Dynamo would differentiate its
        forward, whatever its backward says."""
        if self._stage != NO_COMPILER:
            if self._no_jvp is None:
                self._no_jvp = self._without_jvp()
            if self._no_jvp:
                raise Unsupported(self._no_jvp)
        with super().forward_mode(names):
            yield

    def _without_jvp(self) -> str:
        still = {leaf.name: np.zeros(leaf.shape) for leaf in self.leaves}
        try:
            with self.at_stage(NO_COMPILER):
                super().jvp({name: still[name] for name in self.wrt})
        except Unsupported as error:
            return str(error) if "jvp" in str(error) else ""
        return ""

    @contextmanager
    def at_stage(self, stage: str) -> Iterator[None]:
        before, self._stage = self._stage, stage
        try:
            with super().at_stage(stage):
                yield
        finally:
            self._stage = before

    def jvp(self, tangents: Values) -> Array | None:
        found = super().jvp(self._among_zeros(tangents))
        return found if _is_finite(found) else super().jvp(tangents)

    def hvp(
        self, mode: Mode, row: Array, tangents: Values, along: Values | None = None
    ) -> dict[str, Array | None]:
        product = super().hvp(mode, row, self._among_zeros(tangents), along)
        is_finite = all(map(_is_finite, product.values()))
        return product if is_finite else super().hvp(mode, row, tangents, along)

    def second_tangent(self, row: Array, firsts: Values, tangents: Values) -> float | None:
        both = self._among_zeros(firsts), self._among_zeros(tangents)
        found = super().second_tangent(row, *both)
        return found if _is_finite(found) else super().second_tangent(row, firsts, tangents)

    def _among_zeros(self, tangents: Values) -> Values:
        """A tangent for every leaf, zero if none is given. One compilation then serves all
        directions, and Inductor does not write to the `ZeroTensor` that represents a missing
        tangent (github.com/pytorch/pytorch/issues/177261). If the result is not finite, zero times
        infinity may be the reason, and callers push only the given tangents."""
        moving = (leaf for leaf in self.leaves if leaf.differentiable and leaf.role != "captured")
        return {**{leaf.name: np.zeros(leaf.shape) for leaf in moving}, **tangents}

    def evaluated(
        self, what: str, names: tuple[str, ...], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Compile the function once for all points."""
        if self._stage == NO_COMPILER:
            return function
        layer = self.request.implementation
        shapes = [(leaf.name, leaf.shape) for leaf in self.leaves]
        parts = layer.folder, layer.target, layer.args, dict(layer.kwargs), shapes
        key = what, names, self.dtype, *map(repr, parts)
        return compiled_derivative(self.torch, key, function)


def _is_finite(found: Array | float | None) -> bool:
    return found is None or bool(np.all(np.isfinite(found)))
