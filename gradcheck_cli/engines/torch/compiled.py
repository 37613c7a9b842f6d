"""PyTorch layers that `torch.compile` has compiled. They are judged as compiled and watched as
written."""

from __future__ import annotations

import gc
import importlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import CodeType
from typing import Any
from weakref import WeakSet

from gradcheck_cli.engines.kit.patience import NO_COMPILER, off_the_clock

_COMPILER = "torch._dynamo"
_TRACING = f"{_COMPILER}.convert_frame"
_NODE = "CompiledFunction"  # the start of the name of a compiled function's autograd node
_TAKES_FUNCTIONS = "torch._higher_order_ops."  # the modules of `torch.cond` and its like

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


_STANDING = ExitStack()  # holds `off_the_clock` while the compiler works


def _begin(_: Any) -> None:
    _STANDING.enter_context(off_the_clock())


def _end(_: Any) -> None:
    _STANDING.close()


def clock_stands_still() -> None:
    """Stop the time limit of a spec whenever the compiler works, from now on, or until somebody
    calls `torch._dynamo.reset`."""
    from torch._dynamo.callback import callback_handler

    if _begin not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


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
    return torch.compiler.set_stance(**STAGES[stage])


def is_compiled(arrays: Sequence[Any]) -> bool:
    """Whether the graph of these outputs has a compiled part."""
    return any(type(node).__name__.startswith(_NODE) for node in _nodes_if_at_hand(arrays))


def losing_tangents(arrays: Sequence[Any]) -> str | None:
    """The operation in the graph of these outputs that silently drops tangents, because Dynamo
    traces the functions that it takes: `torch.cond`, or a loop or scan. None if there is none."""
    for node in _nodes_if_at_hand(arrays):
        module = getattr(getattr(node, "_forward_cls", None), "__module__", "")
        if module.startswith(_TAKES_FUNCTIONS):
            return module.removeprefix(_TAKES_FUNCTIONS)
    return None


def _nodes_if_at_hand(arrays: Sequence[Any]) -> Iterator[Any]:
    """The nodes of the graph of these outputs, each once; none if nothing can be compiled."""
    pending = [array.grad_fn for array in arrays] if is_at_hand() else []
    seen: set[Any] = {None}
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending.extend(following for following, _ in node.next_functions)


def is_wrapped(function: Any) -> bool:
    """Whether `torch.compile` returned this function, or `Module.compile()` compiled this module. A
    backend that leaves derivatives to PyTorch adds no nodes of its own to the graph."""
    kept = ("_torchdynamo_orig_callable", "_orig_mod", _OF_MODULE)
    return any(getattr(function, name, None) is not None for name in kept)


_OF_MODULE = "_compiled_call_impl"  # what `Module.compile()` leaves in a module; no copy has it


def compile_as(original: Any, module: Any) -> None:
    """Compile the parts of a copied module whose originals `Module.compile()` has compiled, with
    the same backend and options."""
    copies = dict(module.named_modules())
    for name, one in original.named_modules():
        compiled = getattr(one, _OF_MODULE, None)
        if compiled is not None and name in copies:
            setattr(copies[name], _OF_MODULE, _compiler_of(compiled)(copies[name]._call_impl))


def _compiler_of(compiled: Any) -> Any:
    """What `torch.compile` has applied to a function; with the default options, if this version of
    PyTorch does not show it."""
    import torch
    from torch._dynamo import eval_frame

    kind = getattr(eval_frame, "_TorchDynamoContext", ())
    parts = (cell.cell_contents for cell in compiled.__closure__ or ())
    return next((part for part in parts if isinstance(part, kind)), torch.compile)


_OF_A_VALUE = re.compile(r"\d+/\d+: (.+?) == ")  # how Dynamo reports a failed guard
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")  # how it names what follows a break
_BROKEN = WeakSet[CodeType]()  # functions whose graph breaks have had a note


class Compilations:
    """What Dynamo did since this object was made, for notes about a layer that `torch.compile` has
    returned as `function`, or that calls such functions."""

    def __init__(self, function: Any) -> None:
        self._breaks = dict(_graph_breaks())
        self._before = {id(one) for one in _compilations()}
        self._code = _code_of(function)

    def notes(self) -> Iterator[str]:
        """Sentences about code that Dynamo left uncompiled, and about values for each of which it
        compiled the layer again. A change of dtype, shape or layout does not count as a value."""
        new = [event for event in _compilations() if id(event) not in self._before]
        yield from self._breaks_of(new)
        for event in new:
            if event.fail_type:
                why = f"{event.fail_type}: {' '.join((event.fail_reason or '').split())}"
                yield f"torch.compile runs a part of the layer uncompiled: {why}"
                break
        values = [_OF_A_VALUE.match(event.recompile_reason or "") for event in new]
        for value in [found[1] for found in values if found][:1]:
            yield f"torch.compile recompiles the layer for each value of `{value}`"

    def failed(self) -> bool:
        """Whether Dynamo failed on a function, which then ran uncompiled, now or in an earlier
        call."""
        now = any(one.fail_type for one in _compilations() if id(one) not in self._before)
        return now or (self._code is not None and not _entries_of(self._code))

    def _breaks_of(self, new: Sequence[Any]) -> Iterator[str]:
        """Where Dynamo broke the graph, and why it first did. Dynamo counts a break once for each
        function in which it meets it, so no number is given."""
        reasons = [why for why, n in _graph_breaks().items() if n != self._breaks.get(why, 0)]
        known = self._code is not None and self._code in _BROKEN
        if not reasons and (known or not _is_broken(self._code)):
            return
        if self._code is not None:
            _BROKEN.add(self._code)
        resumed = [found for one in new if (found := _RESUMED.match(one.co_name or ""))]
        places = dict.fromkeys(f"line {found[2]} of {found[1]}" for found in resumed)
        where = f" at {', '.join(places)}" if places else ""
        why = reasons[0].strip().splitlines()[0] if reasons else "TORCH_LOGS=graph_breaks says why"
        yield f"torch.compile breaks its graph{where}, and runs the code there uncompiled: {why}"


def _code_of(function: Any) -> CodeType | None:
    """The code that Dynamo compiles for a function or module, if it is known. All modules that were
    compiled in place share it."""
    if getattr(function, _OF_MODULE, None) is not None:
        function = function._call_impl
    module = getattr(function, "_orig_mod", None)
    inner = getattr(function, "_torchdynamo_orig_callable", function)
    found = getattr(module.forward if module is not None else inner, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _entries_of(code: CodeType) -> Sequence[Any]:
    """What Dynamo has compiled for this code: an entry for each set of guards."""
    if not is_at_hand():
        return ()
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return _debug_get_cache_entry_list(code)


def _is_broken(code: CodeType | None) -> bool:
    """Whether Dynamo has compiled this code in parts."""
    names = (name for one in _entries_of(code) for name in one.code.co_names) if code else ()
    return any(name.startswith("__resume_at") for name in names)


def is_switched_off() -> bool:
    """Whether `torch.compile` compiles nothing in this process, as with TORCH_COMPILE_DISABLE=1."""
    if not is_at_hand():
        return False
    from torch._dynamo import config

    return bool(config.disable)


def _compilations() -> Sequence[Any]:
    """Dynamo's metrics of its last compilations."""
    if not is_at_hand():
        return ()
    from torch._dynamo.utils import get_compilation_metrics

    return get_compilation_metrics()


def _graph_breaks() -> Mapping[str, int]:
    """How often each reason has broken a graph in this process."""
    if not is_at_hand():
        return {}
    from torch._dynamo.utils import counters

    return counters["graph_break"]


MOST_COMPILED = 64
"""How many functions are kept compiled, and how often one may be compiled: for each dtype, shape
and stage. By default Dynamo runs a function uncompiled after the eighth compilation, which would
pass for a compiled function, or for a stage without errors."""


_SETTINGS = (
    (f"{_COMPILER}.config", "recompile_limit", MOST_COMPILED),
    ("torch._functorch.config", "donated_buffer", False),
)
_OF_CALLER: dict[tuple[str, str], Any] = {}  # settings that `compile_as_often_as_asked` replaced


def compile_as_often_as_asked() -> None:
    """Make Dynamo compile a function up to MOST_COMPILED times, and compiled code keep what its
    backward pass reads, until the end of `settings_of_compiler_restored`. By default
    `torch.compile` frees some of it, which rules out a second backward pass."""
    for module, name, value in _SETTINGS:
        config = importlib.import_module(module)
        now = getattr(config, name)
        if now != value:  # to change a setting takes as long as a small layer does
            _OF_CALLER.setdefault((module, name), now)
            setattr(config, name, value)


def as_often_as_asked(around: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """`around`, with `compile_as_often_as_asked` if the compiler is at hand."""
    if not is_at_hand():
        return around
    compile_as_often_as_asked()
    return _with_dispatch_restored(around)


@contextmanager
def settings_of_compiler_restored() -> Iterator[None]:
    """Restore at the end the caller's settings that `as_often_as_asked` replaced in the block."""
    try:
        yield
    finally:
        while _OF_CALLER:
            (module, name), value = _OF_CALLER.popitem()
            setattr(importlib.import_module(module), name, value)


@contextmanager
def _with_dispatch_restored(around: AbstractContextManager[Any]) -> Iterator[None]:
    with dispatch_restored(), around:
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


@contextmanager
def as_written(torch: Any) -> Iterator[None]:
    """Inside the block, run compiled code as it was written, and the functions that `torch.cond`, a
    scan or a loop takes as Python code. Otherwise the compiler would compile, or skip, the modes
    that watch a layer."""
    if not is_at_hand():
        yield
        return
    from gradcheck_cli.engines.torch.dispatch import functions_as_code

    with torch.compiler.set_stance("force_eager"), functions_as_code():
        yield
