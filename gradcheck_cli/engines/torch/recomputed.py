"""The parts of a PyTorch layer that run once more in its backward pass, to save memory
(`torch.utils.checkpoint`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch.utils import checkpoint

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily

RECOMPUTED = "torch.utils.checkpoint"
# It runs before and after the forward. In a version without this name, such a part is not known.
_AROUND = "_checkpoint_without_reentrant_generator"


@contextmanager
def recomputing(is_wanted: Callable[[Place], bool]) -> Iterator[None]:
    """Inside the block, a part runs again only if `is_wanted` says so about the user's line that
    wraps it; otherwise its numbers are kept, as those of other operations."""
    places = Places(__name__)
    reentrant: Any = checkpoint.CheckpointFunction
    around: Any = getattr(checkpoint, _AROUND, None)

    def is_kept() -> bool:
        place = places.running()
        return place is not None and not is_wanted(place)

    def applied(function: Any, preserve: Any, *args: Any) -> Any:
        return function(*args) if is_kept() else reentrant.apply(function, preserve, *args)

    def generated(*args: Any, **kwargs: Any) -> Any:
        return iter([None]) if is_kept() else around(*args, **kwargs)

    other = {} if around is None else {_AROUND: generated}
    with temporarily(checkpoint, CheckpointFunction=SimpleNamespace(apply=applied), **other):
        yield
