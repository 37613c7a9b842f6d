"""Where a layer of TensorFlow draws random numbers: operations that take a seed of their own leave
no trace in the state of TensorFlow, so nothing but the operations tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tensorflow.python.eager import context

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tensorflow.casts import Run, around_operations

DRAWING = ("Random", "TruncatedNormal", "Multinomial", "Rng")
"""Parts of the names of operations that draw: `StatelessRandomNormalV2`, `RandomShuffle`,
`StatelessTruncatedNormal`, and `RngReadAndSkip`, by which a generator moves on."""


class Draws:
    """What was seen. `place`: the user's line of the first draw, where there is one."""

    def __init__(self) -> None:
        self.seen = False
        self.place: Place | None = None


@contextmanager
def watched_draws() -> Iterator[Draws]:
    """Looks at every operation meanwhile, and into functions that were traced."""
    draws, places = Draws(), Places(__name__, around_operations.__module__)

    def handle(name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        if not draws.seen and draws_in(name):
            draws.seen, draws.place = True, places.running()
        return run(inputs, attributes)

    with around_operations(handle):
        yield draws


def draws_in(name: str) -> bool:
    """Whether the operation, or the traced function, of this name draws random numbers, or a
    function that it calls."""
    waiting, known = [name], {name}
    while waiting:
        name = waiting.pop()
        if any(part in name for part in DRAWING) and not _is_traced(name):
            return True
        called = set(_called_by(name)) - known if _is_traced(name) else set()
        waiting += called
        known |= called
    return False


def _is_traced(name: str) -> bool:
    return bool(context.context().has_function(name))


def _called_by(name: str) -> Iterator[str]:
    """The operations of a traced function, and the functions among their attributes."""
    for node in context.context().get_function_def(name).node_def:
        yield node.op
        for value in node.attr.values():
            yield from (f.name for f in (value.func, *value.list.func) if f.name)
