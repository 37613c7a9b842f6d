"""Backward passes of PyTorch layers, whose cotangents reach the layer unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.derivatives import Tape
from gradcheck_cli.engines.errors import WrongKind
from gradcheck_cli.engines.torch.framework import Graph, Torch
from gradcheck_cli.engines.torch.transforms import Transforms


class LayerTorch(Torch):
    """PyTorch for layers, without a table of operations. `keeps_graph` says that another pass
    through the same graph follows. `accumulating` says that gradients come from `.backward()` only,
    because the layer calls something that does not support gradients of selected tensors."""

    def __init__(self, dtype: str, device: str) -> None:
        super().__init__({}, dtype, device)
        self.torch = self._torch
        self.keeps_graph = True
        self.accumulating = False

    def numpy(self, array: Any) -> Array:
        """The array in NumPy, complex numbers as pairs along a last axis."""
        return super().numpy(as_pairs(array))

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        return nullcontext((_LayerGraph(self), list(sources)))


class CompiledLayerTorch(Transforms, LayerTorch):
    """PyTorch for layers that are compiled with their derivatives."""


def as_pairs(tensor: Any) -> Any:
    """Complex numbers as pairs along a last axis; real ones unchanged."""
    if not tensor.is_complex():
        return tensor
    from gradcheck_cli.engines.torch.calls import pairs

    return pairs(tensor)


_WRONG_GRADIENTS = ("returned an invalid gradient at index", "an incorrect number of gradients")


class _LayerGraph(Graph):
    def __init__(self, fw: LayerTorch) -> None:
        super().__init__(fw.torch)
        self._fw = fw

    def _of_connected(
        self, targets: Sequence[Any], sources: Sequence[Any], cotangents: Sequence[Any], again: bool
    ) -> Sequence[Any]:
        how = {"retain_graph": self._fw.keeps_graph or again, "create_graph": again}
        # `.backward()` would lose second derivatives without an error.
        take = _accumulated if self._fw.accumulating and not again else _requested
        try:
            return take(self._torch, targets, sources, cotangents, how)
        except RuntimeError as error:
            if any(words in str(error) for words in _WRONG_GRADIENTS):
                raise WrongKind(str(error).strip().splitlines()[0]) from error
            raise


def _requested(
    torch: Any,
    outputs: Sequence[Any],
    leaves: Sequence[Any],
    cotangents: Sequence[Any],
    how: Mapping[str, bool],
) -> Sequence[Any]:
    """The gradients by the call with which `torch.autograd.grad` ends if nothing overrides it.
    Before that, `grad` compares shapes, which are known to be right here. The comparison imports
    the symbols of the compiler, a second that no derivative needs, and takes a third of a small
    pass."""
    if torch.overrides.has_torch_function((*outputs, *leaves)):
        return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True, **how)
    return torch.autograd.graph._engine_run_backward(
        outputs,
        cotangents,
        how["retain_graph"],
        how["create_graph"],
        tuple(leaves),
        True,  # outputs may not depend on a leaf
        accumulate_grad=False,
    )


def _accumulated(
    torch: Any,
    outputs: Sequence[Any],
    leaves: Sequence[Any],
    cotangents: Sequence[Any],
    how: Mapping[str, bool],
) -> Sequence[Any]:
    """The gradients that `.backward()` stores in the leaves, which hold none before and after."""
    torch.autograd.backward(outputs, cotangents, **how)
    grads = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return grads
