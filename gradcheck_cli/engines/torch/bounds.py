"""The gradients of a PyTorch layer without its bounds. A function mode sees each call, and the
autograd graph shows which results depend on which calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from gradcheck_cli.domain.dtypes import ValuesOrNone
from gradcheck_cli.engines.layer.bounds import BOUNDS, POLES, Bound, is_near, lifted, word_of
from gradcheck_cli.engines.layer.custom import UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.custom_functions import below
from gradcheck_cli.engines.torch.detached import asks, in_a_function


class _Mode(TorchFunctionMode):  # type: ignore[misc]
    """Numbers the calls. Records the calls that bound a number, by their graph nodes, or skips the
    bound `opened`."""

    def __init__(self, opened: Bound | None = None) -> None:
        super().__init__()
        self._opened = opened
        self._serial = 0
        self._places = Places(__name__)
        self.bounds: dict[Any, Bound] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._serial += 1
        kwargs = kwargs or {}
        word = word_of(getattr(func, "__name__", ""))
        result = func(*args, **kwargs)
        if self._opened is not None:
            return args[self._opened.which] if self._serial == self._opened.serial else result
        if word in BOUNDS:
            self._bounded(args, kwargs, result)
        elif word in POLES and self.bounds:
            self._by_a_pole(word, args)
        return result

    def _bounded(self, args: Any, kwargs: Any, result: Any) -> None:
        asking = [a for a in tree_leaves((args, kwargs)) if asks(a)]
        if len(asking) != 1 or not asks(result) or in_a_function():
            return
        (number,) = asking
        if args and number is args[0] and number.shape == result.shape:
            place = self._places.running()
            if place is not None and bool((number != result).any()):
                self.bounds[result.grad_fn] = Bound(self._serial, 0, place)

    def _by_a_pole(self, word: str, args: Any) -> None:
        for which, at in POLES[word]:
            value: Any = args[which] if which < len(args) else None
            if not asks(value) or value.grad_fn is None:
                continue
            if is_near(value.detach().double().numpy(force=True), at):
                for node in set(below([value.grad_fn])) & self.bounds.keys():
                    self.bounds[node].pole = self.bounds[node].pole or word


def unclipped_gradients(run: Callable[[], ValuesOrNone]) -> list[UnclippedGradients]:
    """The gradients without each bound that keeps a number from a pole. `run` makes a forward pass
    and backward passes, and returns the gradients by leaf."""
    with _Mode() as seen:
        run()

    def gradients(opened: Bound) -> ValuesOrNone | None:
        with _Mode(opened), suppress(RuntimeError):  # the layer may fail without the bound
            return run()
        return None

    return lifted(seen.bounds.values(), gradients)
