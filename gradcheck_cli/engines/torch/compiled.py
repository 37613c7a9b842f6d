"""Layers of PyTorch that `torch.compile` has compiled: judged as compiled, watched as written."""

from __future__ import annotations

import gc
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

from gradcheck_cli.engines.kit.patience import NO_COMPILER, off_the_clock

_COMPILER = "torch._dynamo"
_TRACING = f"{_COMPILER}.convert_frame"
_NODE = "CompiledFunction"  # what the name of a compiled function's autograd node begins with

NOTE = (
    "compiled by torch.compile: its gradients are judged as compiled, but casts and causes are "
    "searched for in the layer as written"
)
FELL_BACK = (
    "the graph of the outputs has no compiled part: torch.compile compiled nothing of the layer, "
    "or lost its gradient"
)
NO_FORWARD_MODE = "torch.compile loses tangents"
NO_SECOND_ORDER = "PyTorch does not differentiate code twice that torch.compile has compiled"

STAGES = {
    NO_COMPILER: {"stance": "force_eager"},
    "Dynamo": {"force_backend": "eager"},
    "AOTAutograd": {"force_backend": "aot_eager"},
    "decompositions": {"force_backend": "aot_eager_decomp_partition"},
}
"""The stages of `torch.compile` before its backend, each with those before it: how
`torch.compiler.set_stance` is called to go so far."""

INDUCTOR, THE_BACKEND = "Inductor", "its backend"
"""The backend's stage; the second where the layer's author chose it."""

COMPILED_AUTOGRAD = "compiled autograd"
"""The stage that compiles the backward pass as a whole, where it is switched on."""


def is_at_hand() -> bool:
    """Whether something has imported the compiler, as every use of it does."""
    return _COMPILER in sys.modules


@cache
def clock_stands_still() -> None:
    """From now on the time limit of a spec stands still while the compiler works."""
    from torch._dynamo.callback import callback_handler

    standing = ExitStack()

    def begin(_: Any) -> None:
        standing.enter_context(off_the_clock())

    def end(_: Any) -> None:
        standing.close()

    callback_handler.register_start_callback(begin)
    callback_handler.register_end_callback(end)


_COMPILED_LAST: list[str] = []  # the layer, at most one


def forget_others(layer: str) -> None:
    """Dynamo lets go of what it compiled for other layers, or for other shapes: it counts by the
    code object of Python, which layers of one class share, and runs uncompiled what comes after the
    eighth. It also remembers which sizes have changed, and would compile for any size."""
    from torch._dynamo import reset_code_caches

    if [layer] != _COMPILED_LAST:
        reset_code_caches()
        _COMPILED_LAST[:] = [layer]


def at_stage(torch: Any, stage: str) -> AbstractContextManager[Any]:
    """Meanwhile everything that is compiled goes up to this stage and no further; with another
    name, or none, through all."""
    if stage not in STAGES:
        return nullcontext()
    kept: AbstractContextManager[Any] = torch.compiler.set_stance(**STAGES[stage])
    return kept


def is_compiled(arrays: Sequence[Any]) -> bool:
    """Whether the graph of these outputs has a part that was compiled."""
    if not is_at_hand():
        return False
    pending = [array.grad_fn for array in arrays]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        if type(node).__name__.startswith(_NODE):
            return True
        seen.add(node)
        pending.extend(following for following, _ in node.next_functions)
    return False


def is_wrapped(function: Any) -> bool:
    """Whether this is what `torch.compile` returned. A backend that leaves derivatives to PyTorch
    makes no part of the graph its own."""
    return hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_orig_mod")


class GraphBreaks:
    """Counts where Dynamo stops tracing, from its making on."""

    def __init__(self) -> None:
        self._before = dict(_graph_breaks())

    def notes(self) -> list[str]:
        """A sentence that says how often, and why first; none where it traced all."""
        found = {why: n - self._before.get(why, 0) for why, n in _graph_breaks().items()}
        reasons = {why: n for why, n in found.items() if n}
        if not reasons:
            return []
        first = next(iter(reasons)).strip().splitlines()[0]
        count = sum(reasons.values())
        breaks = "breaks its graph once" if count == 1 else f"breaks its graph {count} times"
        return [f"torch.compile {breaks}, and runs the code there uncompiled: {first}"]


_OF_A_VALUE = re.compile(r"\d+/\d+: (.+?) == ")  # Dynamo's words for a guard that has failed


class Recompilations:
    """Sees where Dynamo compiles something again because a value has changed, from its making on.
    Another dtype, shape or layout is no such value."""

    def __init__(self) -> None:
        self._before = _compilations()

    def notes(self) -> list[str]:
        """A sentence that names the value; none where nothing was compiled again."""
        before = {id(one) for one in self._before}
        reasons = [one.recompile_reason for one in _compilations() if id(one) not in before]
        values = [found[1] for why in reasons if (found := _OF_A_VALUE.match(why or ""))]
        return [f"torch.compile recompiles the layer for each value of `{v}`" for v in values[:1]]


def _compilations() -> Sequence[Any]:
    """What Dynamo has noted of its last compilations."""
    if not is_at_hand():
        return ()
    from torch._dynamo.utils import get_compilation_metrics

    found: Sequence[Any] = get_compilation_metrics()
    return found


def _graph_breaks() -> Mapping[str, int]:
    """How often each reason has broken a graph in this process."""
    if not is_at_hand():
        return {}
    from torch._dynamo.utils import counters

    found: Mapping[str, int] = counters["graph_break"]
    return found


MOST_COMPILED = 64
"""Functions that are kept compiled, and times that one is compiled: for every dtype, shape and
stage. Dynamo runs it uncompiled after the eighth, which would pass for a compiled one, or for a
stage that is right."""


def as_often_as_asked(around: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """`around`, in which Dynamo compiles a function MOST_COMPILED times, and what is compiled keeps
    all that its backward pass reads, so that a second one may follow: `torch.compile` gives some of
    it away by default."""
    return _as_often_as_asked(around) if is_at_hand() else around


@contextmanager
def _as_often_as_asked(around: AbstractContextManager[Any]) -> Iterator[None]:
    from torch._dynamo import config as tracing
    from torch._functorch import config as differentiation

    often = tracing.patch(recompile_limit=MOST_COMPILED)
    with dispatch_restored(), often, differentiation.patch(donated_buffer=False), around:
        yield


@contextmanager
def dispatch_restored() -> Iterator[None]:
    """PyTorch dispatches as before when Dynamo fails in here. What it was doing then holds guards
    that switch autograd and forward mode off. They stay in the frames of the exception until these
    are collected, whenever that is, and then leave them switched off for the rest of the process:
    lerp_ in forward mode, and with it quantile."""
    from torch._C import (
        _dispatch_tls_local_exclude_set,
        _dispatch_tls_local_include_set,
        _ForceDispatchKeyGuard,
    )

    with _ForceDispatchKeyGuard(
        _dispatch_tls_local_include_set(), _dispatch_tls_local_exclude_set()
    ):
        try:
            yield
        except Exception as error:
            if _is_of_dynamo(error):
                _let_go(error)
            raise


def _is_of_dynamo(error: BaseException) -> bool:
    """Whether Dynamo was tracing when this was raised."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == _TRACING for frame in frames)


def _let_go(error: BaseException | None) -> None:
    """Of what the frames of an exception, and of what caused it, hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()


def as_written(torch: Any) -> AbstractContextManager[Any]:
    """Meanwhile, what was compiled runs as it was written. The compiler would else compile, or
    leave out, the modes that watch a layer."""
    if not is_at_hand():
        return nullcontext()
    kept: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return kept
