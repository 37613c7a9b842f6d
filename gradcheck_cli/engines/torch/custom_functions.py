"""The functions with a derivative of the user's that a PyTorch layer calls, with the arguments of
each call: `autograd.Function`s, and operators with `torch.library.register_autograd`, for each of
which PyTorch makes such a class."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.custom import MOST_CALLS, CustomCall, IsolatedCall, Passes
from gradcheck_cli.engines.layer.source_lines import FRAMEWORKS, Places, calling, storing
from gradcheck_cli.engines.torch.detached import AS_NUMBERS, CUTS

_READING = ("__bool__", "item", "__float__")
_GENERATED = "torch._library.autograd"  # the module of the classes that PyTorch makes
_VMAPPED = "torch._functorch.autograd_function"  # the same, under `vmap`
_ONCE = once_differentiable(lambda ctx: None).__code__  # shared by all backwards that it wraps


@dataclass(frozen=True, slots=True)
class Registered:
    """A user's operator, with the functions given to `torch.library.register_autograd`."""

    op: Any
    backward: Callable[..., Any]
    setup: Callable[..., Any] | None


@dataclass(slots=True)
class _Call:
    cls: Any
    apply: Callable[..., Any]
    args: tuple[Any, ...]
    number: int  # the sequence number of its autograd node
    place: Place | None


def custom_calls(passes: Passes, numpy: Callable[[Any], Array]) -> list[CustomCall]:
    """Run the layer, and return in order the calls of users' classes that the outputs depend
    on."""
    calls: list[_Call] = []
    places = Places(__name__)

    def recorded(cls: Any, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if is_stated(users_class(cls)) and len(calls) < MOST_CALLS:
            apply, given = applied(cls, args)
            number = torch.autograd._get_sequence_nr()
            copies = once_each(detached_copy, given)
            calls.append(_Call(cls, apply, copies, number, places.running()))
        return run()

    with _applying(recorded):
        numbers = {node._sequence_nr(): node for node in _nodes(passes.call())}
    names = {id(tensor): name for name, tensor in passes.leaves.items()}
    return [
        _described(call, numbers[call.number], names, numpy)
        for call in calls
        if call.number in numbers and numbers[call.number]._forward_cls is call.cls
    ]


_Lines = tuple[tuple[CodeType, int], ...]
"""The lines that run, from the innermost to that of the caller of a forward."""


class _Reads(TorchFunctionMode):  # type: ignore[misc]
    """Counts how often each line of the user, called in the same way, reads a number of a tensor to
    decide what to run next. More than once means a loop: a helper that two lines call counts for
    each, and a distribution that validates its arguments, one by one, is PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[_Lines] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READING and (lines := _running_lines()):
            self.counts[lines] += 1
        return func(*args, **(kwargs or {}))


def _running_lines() -> _Lines:
    """None if a framework reads."""
    lines: list[tuple[CodeType, int]] = []
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:  # _Reads
        frame = frame.f_back
    if frame is None or _is_of_a_framework(frame.f_globals.get("__name__", "")):
        return ()
    while frame is not None and frame.f_globals.get("__name__") != __name__:  # _read
        lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)


def solvers(passes: Passes) -> frozenset[str]:
    """The users' classes whose forward reads a number in a loop, which means that it iterates until
    the number is small enough."""
    names: set[str] = set()
    with ExitStack() as stack:
        for cls in classes_of(passes.call()):
            stack.enter_context(_read(cls, names))
        passes.call()
    return frozenset(names)


@contextmanager
def _read(cls: Any, found: set[str]) -> Iterator[None]:
    forward = cls.forward

    def watched(*args: Any) -> Any:
        with _Reads() as reads:
            result = forward(*args)
        if any(count > 1 for count in reads.counts.values()):
            found.add(function_name(cls))
        return result

    with replaced_forward(cls, watched):
        yield


def classes_of(outputs: Sequence[Any]) -> set[Any]:
    """The users' classes that the outputs depend on."""
    return {_class_of(node) for node in _nodes(outputs)} - {None}


def without_jvp(outputs: Sequence[Any]) -> str | None:
    """The name of a user's class without a `jvp` that the outputs depend on, or None."""
    none = torch.autograd.Function.jvp
    return min((function_name(c) for c in classes_of(outputs) if c.jvp is none), default=None)


def _is_users(cls: Any) -> bool:
    return not _is_of_a_framework(getattr(cls, "__module__", ""))


def _is_of_a_framework(module: str) -> bool:
    return module.partition(".")[0] in FRAMEWORKS


def _nodes(outputs: Sequence[Any]) -> Iterator[Any]:
    """Autograd's nodes that the outputs depend on."""
    yield from below([y.grad_fn for y in outputs if y.grad_fn is not None])


def below(nodes: Sequence[Any]) -> Iterator[Any]:
    """These nodes and all nodes that they pass cotangents to, each once."""
    waiting = list(dict.fromkeys(nodes))
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _class_of(node: Any) -> Any:
    """The class of a user's function that a node belongs to, or None."""
    cls = users_class(getattr(node, "_forward_cls", None))
    return cls if is_stated(cls) else None


def is_stated(cls: Any) -> bool:
    """Whether a user states the derivative of this class."""
    return _is_users(cls) or registered(cls) is not None


def users_class(cls: Any) -> Any:
    """The class that PyTorch made this one for, because it is called under `torch.func.vmap` and
    has `generate_vmap_rule`. Any other class itself."""
    while getattr(cls, "__module__", "") == _VMAPPED and issubclass(cls, torch.autograd.Function):
        inner = inspect.getclosurevars(cls.forward).nonlocals.get("autograd_function")
        if inner is None:
            return cls
        cls = inner
    return cls


def registered(cls: Any) -> Registered | None:
    """The user's operator that PyTorch made this class for. None for other classes, and for
    operators that take or return lists of tensors."""
    if getattr(cls, "__module__", "") != _GENERATED:
        return None
    known = inspect.getclosurevars(cls.backward).nonlocals
    op, info = known.get("op"), known.get("info")
    if op is None or info is None or info._backward_fn is None:
        return None
    if _is_of_a_framework(getattr(info._backward_fn, "__module__", "")):
        return None
    return Registered(op, info._backward_fn, info._setup_context_fn)


def function_name(cls: Any) -> str:
    made = registered(cls)
    return cls.__name__ if made is None else made.op._opname


def applied(cls: Any, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What the user called and what with, from the arguments that the class is applied to."""
    made = registered(cls)
    if made is None:
        return cls.apply, args
    *given, metadata = args
    return partial(made.op, **metadata.keyword_only_args), tuple(given)


def without_ctx(cls: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments that the class is applied to, from those of its forward."""
    return args if is_separate(cls) else args[1:]


@contextmanager
def replaced_forward(cls: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Give the class this forward inside the block."""
    own = cls.__dict__.get("forward")
    cls.forward = staticmethod(forward)
    try:
        yield
    finally:
        if own is None:
            del cls.forward
        else:
            cls.forward = own


@contextmanager
def around_calls(
    within: Callable[[Any], AbstractContextManager[None]], of: Callable[[Any], bool] | None = None
) -> Iterator[None]:
    """Run every call of a user's class, or of the classes `of` which this is true, under `vmap` and
    elsewhere, inside `within(class)`, except calls inside a call of the same class."""
    running = set()

    def inside(cls: Any, _: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        concerns = _is_users(cls) if of is None else of(users_class(cls))
        if cls in running or not concerns:
            return run()
        running.add(cls)
        try:
            with within(cls):
                return run()
        finally:
            running.remove(cls)

    with _applying(inside):
        yield


@contextmanager
def _applying(instead: Callable[[Any, tuple[Any, ...], Callable[[], Any]], Any]) -> Iterator[None]:
    """Let `instead(cls, args, run)` call `run`, which applies a class to its arguments. All calls
    go through one method of PyTorch, which is replaced; other classes, of which a program may have
    hundreds, are left alone."""
    base = torch.autograd.function._SingleLevelFunction

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return instead(cls, args, lambda: super(base, cls).apply(*args, **kwargs))

    base.apply = classmethod(apply)
    try:
        yield
    finally:
        del base.apply


def is_separate(cls: Any) -> bool:
    """Whether the forward takes no `ctx`, which `setup_context` then fills."""
    return cls.setup_context is not torch.autograd.Function.setup_context


def detached_copy(value: Any) -> Any:
    """A copy of a tensor as a leaf of its own. Other values are returned unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def once_each(change: Callable[[Any], Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """`change(value)` of each value. A value that is given twice stays one object: a function may
    ask whether its arguments are the same."""
    changed = {id(value): change(value) for value in values}
    return tuple(changed[id(value)] for value in values)


def firsts(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The tensors among the values and their places. One that is given twice is at its first."""
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor) and not any(value is one for one in values[:i]):
            yield i, value


def _described(
    call: _Call, node: Any, names: Mapping[int, str], numpy: Callable[[Any], Array]
) -> CustomCall:
    places = [i for i, value in firsts(call.args) if _is_floating(value)]
    users = users_class(call.cls)
    known = parameters_of(users)
    called = [known[i] if i < len(known) else f"argument {i}" for i in places]
    reached = {id(getattr(n, "variable", None)) for n in below([node])}
    own, name = _rule(users), function_name(users)
    return CustomCall(
        name=name,
        live=IsolatedCall(name, call.apply, call.args, places),
        values={n: numpy(call.args[i]) for n, i in zip(called, places, strict=True)},
        moving=tuple(n for n, i in zip(called, places, strict=True) if call.args[i].requires_grad),
        reaches=frozenset(name for key, name in names.items() if key in reached),
        positions={n: (i,) for n, i in zip(called, places, strict=True)},
        backward=own,
        jvp=getattr(users.jvp, "__func__", users.jvp),
        place=call.place,
        once=getattr(own, "__code__", None) is _ONCE,
        lone_jvp=users.jvp is not torch.autograd.Function.jvp,
        saves=_saves(users, call.args, node),
        stops=_stops(users, node),
        complex_values=frozenset(
            n for n, i in zip(called, places, strict=True) if call.args[i].is_complex()
        ),
    )


def _rule(cls: Any) -> Any:
    """The user's function that states the vjp."""
    made = registered(cls)
    own = cls.__dict__.get("vjp", cls.backward) if made is None else made.backward
    return getattr(own, "__func__", own)


def _is_floating(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _saves(cls: Any, args: Sequence[Any], node: Any) -> Place | None:
    """Where a function saves an intermediate value that is in no graph, or None. Saved inputs equal
    an argument, and saved outputs have the function itself in their graph; neither counts."""
    given = [value for value in args if isinstance(value, torch.Tensor)]

    def is_lost(saved: Any) -> bool:
        if not isinstance(saved, torch.Tensor) or not _is_floating(saved) or saved.requires_grad:
            return False
        return not any(torch.equal(saved, one) for one in given if one.shape == saved.shape)

    made = registered(cls)
    function = cls.setup_context if is_separate(cls) else cls.forward
    if made is not None:
        function = made.setup
    if any(is_lost(saved) for saved in node.saved_tensors):
        return calling(function, "save_for_backward")
    attributes = (name for name, value in vars(node).items() if is_lost(value))
    return next((storing(function, name) for name in attributes), None)


def _stops(cls: Any, node: Any) -> dict[Mode, Place | None]:
    """Where a function takes a value out of the graph, by mode: in the rule of the mode, or in its
    forward, which is in no graph, by keeping a value as a plain number."""
    keeps = any(isinstance(kept, float | np.ndarray | np.floating) for kept in vars(node).values())
    made_in = (cls.forward, cls.setup_context) if keeps else ()
    numbers = next((place for one in made_in if (place := calling(one, *AS_NUMBERS))), None)
    rules: dict[Mode, Any] = {"reverse": _rule(cls), "forward": cls.jvp}
    return {mode: calling(rule, *CUTS) or numbers for mode, rule in rules.items()}


def parameters_of(cls: Any) -> list[str]:
    """The names of the forward's arguments after `ctx`, up to the first without a name."""
    made = registered(cls)
    if made is not None:
        return [argument.name for argument in made.op._schema.arguments]
    names = []
    for parameter in inspect.signature(cls.forward).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            break
        names.append(parameter.name)
    return names if is_separate(cls) else names[1:]
