"""PyTorch layers that `torch.compile` has compiled. They are judged as compiled and watched as
written."""

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
_NODE = "CompiledFunction"  # the start of the name of a compiled function's autograd node

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
"""The stages of `torch.compile` before its backend. The arguments of `torch.compiler.set_stance`
run each stage and those before it."""

INDUCTOR, THE_BACKEND = "Inductor", "its backend"
"""The stage of the backend. The second name is for a backend that the layer's author chose."""

COMPILED_AUTOGRAD = "compiled autograd"
"""The stage that compiles the backward pass as a whole, if it is switched on."""


def is_at_hand() -> bool:
    """Whether the compiler has been imported, as every use of it requires."""
    return _COMPILER in sys.modules


@cache
def clock_stands_still() -> None:
    """Stop the time limit of a spec whenever the compiler works, from now on."""
    from torch._dynamo.callback import callback_handler

    standing = ExitStack()

    def begin(_: Any) -> None:
        standing.enter_context(off_the_clock())

    def end(_: Any) -> None:
        standing.close()

    callback_handler.register_start_callback(begin)
    callback_handler.register_end_callback(end)


_COMPILED_LAST: list[str] = []  # at most one layer


def forget_other_layers(layer: str) -> None:
    """Make Dynamo drop what it compiled for other layers or shapes. It counts compilations by
    Python code object, which all layers of a class share, and after the eighth runs code
    uncompiled. It also remembers which sizes have changed, and would compile for any size."""
    from torch._dynamo import reset_code_caches

    if [layer] != _COMPILED_LAST:
        reset_code_caches()
        _COMPILED_LAST[:] = [layer]


def at_stage(torch: Any, stage: str) -> AbstractContextManager[Any]:
    """Inside the block, compile up to this stage and no further. With any other name, or none,
    compile through all stages."""
    if stage not in STAGES:
        return nullcontext()
    kept: AbstractContextManager[Any] = torch.compiler.set_stance(**STAGES[stage])
    return kept


def is_compiled(arrays: Sequence[Any]) -> bool:
    """Whether the graph of these outputs has a compiled part."""
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
    """Whether `torch.compile` returned this function. A backend that leaves derivatives to PyTorch
    adds no nodes of its own to the graph."""
    return hasattr(function, "_torchdynamo_orig_callable") or hasattr(function, "_orig_mod")


class GraphBreaks:
    """Counts the graph breaks of Dynamo since this object was made."""

    def __init__(self) -> None:
        self._before = dict(_graph_breaks())

    def notes(self) -> list[str]:
        """A sentence that says how often the graph broke, and why it first did. Empty if Dynamo
        traced everything."""
        found = {why: n - self._before.get(why, 0) for why, n in _graph_breaks().items()}
        reasons = {why: n for why, n in found.items() if n}
        if not reasons:
            return []
        first = next(iter(reasons)).strip().splitlines()[0]
        count = sum(reasons.values())
        breaks = "breaks its graph once" if count == 1 else f"breaks its graph {count} times"
        return [f"torch.compile {breaks}, and runs the code there uncompiled: {first}"]


_OF_A_VALUE = re.compile(r"\d+/\d+: (.+?) == ")  # how Dynamo reports a failed guard


class Recompilations:
    """Finds what Dynamo has compiled again since this object was made because a value changed. A
    change of dtype, shape or layout does not count."""

    def __init__(self) -> None:
        self._before = _compilations()

    def notes(self) -> list[str]:
        """A sentence that names the value. Empty if nothing was compiled again."""
        before = {id(one) for one in self._before}
        reasons = [one.recompile_reason for one in _compilations() if id(one) not in before]
        values = [found[1] for why in reasons if (found := _OF_A_VALUE.match(why or ""))]
        return [f"torch.compile recompiles the layer for each value of `{v}`" for v in values[:1]]


def _compilations() -> Sequence[Any]:
    """Dynamo's metrics of its last compilations."""
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
"""How many functions are kept compiled, and how often one may be compiled: for each dtype, shape
and stage. By default Dynamo runs a function uncompiled after the eighth compilation, which would
pass for a compiled function, or for a stage without errors."""


def as_often_as_asked(around: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """`around`, in which Dynamo compiles a function up to MOST_COMPILED times and compiled code
    keeps what its backward pass reads. By default `torch.compile` frees some of it, which rules out
    a second backward pass."""
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
    """Keep PyTorch's dispatch unchanged if Dynamo fails inside the block. Dynamo holds guards that
    switch autograd and forward mode off. These stay in the frames of the exception until garbage
    collection, and then leave both switched off for the rest of the process, which breaks forward
    mode of lerp_ and quantile."""
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
    """Whether the error was raised while Dynamo was tracing."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == _TRACING for frame in frames)


def _let_go(error: BaseException | None) -> None:
    """Release what the frames of an exception, and of its causes, hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()


def as_written(torch: Any) -> AbstractContextManager[Any]:
    """Inside the block, run compiled code as it was written. Otherwise the compiler would compile,
    or skip, the modes that watch a layer."""
    if not is_at_hand():
        return nullcontext()
    kept: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return kept
