"""The derivatives of products that PyTorch runs when no factor is 0 and no mode is active.

`torch.prod` and `torch.cumprod` choose a derivative by whether a factor is 0. Under a dispatch mode
they use the one that holds in both cases, which rounds differently (`prod_backward` and
`cumprod_backward` in torch/csrc/autograd/FunctionsManual.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from gradcheck_cli.engines.execution import Execution, Step
from gradcheck_cli.engines.trace.exact_kernels import on_balls, row

NAMES = {
    "ProdBackward0": "aten.prod_backward",
    "ProdBackward1": "aten.prod_backward",
    "CumprodBackward0": "aten.cumprod_backward",
}


class Product:
    """One node of autograd's graph, `function`, in the record of a run."""

    def __init__(
        self, execution: Execution, slot: Callable[[Any], int], function: Any, node: int
    ) -> None:
        self._execution, self._slot = execution, slot
        self._function, self._node = function, node
        self._begin = 0
        function.register_prehook(self._begin_call)
        function.register_hook(self._end_call)

    def _begin_call(self, _: Any) -> None:
        self._begin = len(self._execution.steps)

    def _end_call(self, made: Sequence[Any], given: Sequence[Any]) -> None:
        """Replace the recorded derivative by the other one if the product is over all factors and
        none is 0."""
        function, (x_bar,), (y_bar,) = self._function, made, given
        x, y = function._saved_self, function._saved_result
        with _disable_current_modes():
            alone = x.numel() > 1 and bool(torch.all(x != 0)) and not x.is_complex()
        dim = getattr(function, "_saved_dim", None)
        if not alone or (dim is not None and x.dim() != 1):
            return
        name = NAMES[function.name()]
        running = name == "aten.cumprod_backward"
        low = _of_running if running else _of_whole
        del self._execution.steps[self._begin :]
        self._execution.add_step(
            Step(
                name=name,
                args=(self._slot(y_bar), self._slot(x), self._slot(y)),
                results=(self._slot(x_bar),),
                low=lambda args: [low(*args)],
                live=lambda args: [low(*args)],
                wide=lambda args: [low(*map(torch.from_numpy, map(np.array, args))).numpy()],
                exact=lambda args: on_balls(_rows_of_running if running else _of_whole, args),
                moves=False,
                node=self._node,
                phase="backward",
            )
        )


def _of_whole(y_bar: Any, x: Any, y: Any) -> Any:
    """The derivative of `prod`, for tensors and for numbers of rows."""
    return y_bar * (y / x)


def _of_running(y_bar: Any, x: Any, y: Any) -> Any:
    return (y * y_bar).flip(0).cumsum(0).flip(0) / x


def _rows_of_running(y_bar: Any, x: Any, y: Any) -> Any:
    sums = row("cumsum")(row("flip")(y * y_bar, axis=0), axis=0)
    return row("flip")(sums, axis=0) / x
