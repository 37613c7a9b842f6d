"""The values of a PyTorch layer at several points in one call, under `torch.func.vmap`.

This pays only for small layers of many operations. One call for eight points takes 0.5 to 0.9 of
the time of a loop, but a check makes only two or three of these calls, and one more run to compare
the results. Whole checks, measured in pairs, took 0.8 of the time for a recurrence of 200
operations, 1.2 for one sine, and 1.2 to 1.8 for a normalisation of ten operations. The other
frameworks loop: for eight points `jax.vmap` took 0.8 to 3 times the loop after 0.3 to 2.5 s of
compilation, and `tf.vectorized_map` 20 to 40 times the loop, or 0.07 to 0.2 s to trace it into a
graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values

NUMBERS = 1024  # most numbers that move at one point: with more, arithmetic takes the time
OPERATIONS = 100  # fewest operations of a layer for which batching pays

At = Callable[[Mapping[str, Any]], list[Any]]
"""From tensors in place of leaves to the output tensors of the layer."""


class Batched:
    """Evaluates a layer at several points in one call, and finds out for each set of moving leaves
    whether this works. It fails if the layer branches on its numbers, writes to what it captured,
    draws random numbers, or runs operations that round differently in a batch.

    `tensor` makes the tensor of a leaf. `value` returns the layer's values at one point.
    `undisturbed` restores what the layer keeps, because a tensor of the batch cannot be used after
    the call.
    """

    def __init__(
        self,
        torch: Any,
        tensor: Callable[[str, Array], Any],
        value: Callable[[Values], Array],
        undisturbed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._torch = torch
        self._tensor = tensor
        self._value = value
        self._undisturbed = undisturbed
        self._works: dict[frozenset[str], bool] = {}

    def values(self, many: Sequence[Values], at: At) -> Array | None:
        """The values, of shape (points, m), or None if the points must be evaluated one by one.
        `at` runs the layer."""
        names = frozenset(many[0])
        if len(many) < 2 or not names or not self._works.get(names, True):
            return None
        if any(point.keys() != names for point in many):
            return None
        if sum(value.size for value in many[0].values()) > NUMBERS:
            return None
        try:
            outputs = self._values_by_vmap(many, at)
        except Exception:  # the loop shows which errors are the layer's own
            self._works[names] = False
            return None
        if names not in self._works:
            same = np.array_equal(outputs[0], self._value(many[0]), equal_nan=True)
            self._works[names] = same
        return outputs if self._works[names] else None

    def _values_by_vmap(self, many: Sequence[Values], at: At) -> Array:
        torch = self._torch
        stacked = {
            name: self._tensor(name, np.stack([point[name] for point in many])) for name in many[0]
        }
        with torch.no_grad(), self._undisturbed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about operations that vmap runs in a loop
            parts = torch.func.vmap(lambda point: tuple(at(point)))(stacked)
        flat = [part.to(torch.float64).reshape(len(many), -1) for part in parts]
        return torch.cat(flat, dim=1).numpy(force=True)


def has_many_operations(arrays: Sequence[Any]) -> bool:
    """Whether the graph of these outputs has at least OPERATIONS nodes."""
    pending = [array.grad_fn for array in arrays]
    seen: set[Any] = set()
    while pending and len(seen) < OPERATIONS:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            pending.extend(following for following, _ in node.next_functions)
    return len(seen) >= OPERATIONS
