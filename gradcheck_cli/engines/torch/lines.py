"""Where a PyTorch layer writes to its arguments, and where it draws random numbers. A dispatch mode
sees every operation below autograd, with the memory that it writes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.custom import Lines
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.torch.calls import written_positions
from gradcheck_cli.engines.torch.dispatch import WATCHER, OperationMode

_UPSTREAM = ""  # no leaf has that name


class Watching(OperationMode):
    """Watches these `tensors`, given by name, and cotangents after `follow`."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        super().__init__()
        self._places = Places(__name__, WATCHER)
        self._names = {_memory(tensor): name for name, tensor in tensors.items()}
        self._writes: dict[str, Place] = {}
        self._draws: Place | None = None
        self._redraws: Place | None = None
        self._is_backward = False

    def follow(self, cotangents: Sequence[Any]) -> None:
        """Mark the start of a backward pass of these cotangents."""
        self._is_backward = True
        self._names.update((_memory(tensor), _UPSTREAM) for tensor in cotangents)

    def lines(self) -> Lines:
        """The lines of the first write to each leaf, of the first write to a cotangent, and of the
        first random draws."""
        leaves = {name: place for name, place in self._writes.items() if name != _UPSTREAM}
        return Lines(leaves, self._writes.get(_UPSTREAM), self._draws, self._redraws)

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        names = [
            self._names.get(_memory(args[i]))
            for i in written_positions(func)
            if i < len(args) and isinstance(args[i], torch.Tensor)
        ]
        for name in names:
            if name is not None and name not in self._writes:
                place = self._places.running()
                if place is not None:
                    self._writes[name] = place
        wanted = self._redraws if self._is_backward else self._draws
        if wanted is None and _is_random(func, args, kwargs):
            self._drawn(self._places.running())
        return func(*args, **kwargs)

    def _drawn(self, place: Place | None) -> None:
        if self._is_backward:
            self._redraws = place or self._draws
        self._draws = self._draws or place


def _is_random(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call draws random numbers. Attention draws them only with dropout."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            given = args[place] if place < len(args) else kwargs.get("dropout_p")
            return bool(argument.default_value if given is None else given)
    return True


def _memory(tensor: Any) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address or -id(tensor)
