"""Values of a PyTorch layer at several points by one call, under `torch.func.vmap`.

It pays for small layers of many operations alone. By itself a call for eight points takes 0.5 to
0.9 of the time of a loop; but a check makes only two or three of them, and one more run to see that
they give the same. Whole checks in pairs took 0.8 of the time for a recurrence of 200 operations,
1.2 for one sine, 1.2 to 1.8 for a normalisation of ten operations. The other frameworks are looped:
for eight points `jax.vmap` took 0.8 to 3 times the loop after 0.3 to 2.5 s of compilation,
`tf.vectorized_map` 20 to 40 times, or 0.07 to 0.2 s to trace it into a graph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values

NUMBERS = 1024  # that move at one point, at most: the time of more is that of their arithmetic
OPERATIONS = 100  # that the layer has, at least

At = Callable[[Mapping[str, Any]], list[Any]]
"""The output tensors of the layer with these tensors in place of leaves."""


class Batched:
    """Tries, for each set of leaves that moves, whether the layer can be called like this: it may
    branch on its numbers, write to what it captured, draw random numbers, or have operations that
    round otherwise in a batch. `tensor` makes a leaf's tensor, `value` gives its values at
    one point, and `undisturbed` puts back what the layer keeps: a tensor of the batch is dead after
    the call."""

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
        """The values (points, m); None where they are to be taken one by one. `at` runs the
        layer."""
        names = frozenset(many[0])
        if len(many) < 2 or not names or not self._works.get(names, True):
            return None
        if any(point.keys() != names for point in many):
            return None
        if sum(value.size for value in many[0].values()) > NUMBERS:
            return None
        try:
            found = self._together(many, at)
        except Exception:  # whatever the layer raises there, the loop tells what is its own
            self._works[names] = False
            return None
        if names not in self._works:
            same = np.array_equal(found[0], self._value(many[0]), equal_nan=True)
            self._works[names] = same
        return found if self._works[names] else None

    def _together(self, many: Sequence[Values], at: At) -> Array:
        torch = self._torch
        stacked = {
            name: self._tensor(name, np.stack([point[name] for point in many])) for name in many[0]
        }
        with torch.no_grad(), self._undisturbed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # operations that vmap loops over itself
            parts = torch.func.vmap(lambda point: tuple(at(point)))(stacked)
        flat = [part.to(torch.float64).reshape(len(many), -1) for part in parts]
        result: Array = torch.cat(flat, dim=1).numpy(force=True)
        return result


def has_many_operations(arrays: Sequence[Any]) -> bool:
    """Whether the graph of these outputs has at least OPERATIONS."""
    pending = [array.grad_fn for array in arrays]
    seen: set[Any] = set()
    while pending and len(seen) < OPERATIONS:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            pending.extend(following for following, _ in node.next_functions)
    return len(seen) >= OPERATIONS
