"""JAX for layers: its errors for missing derivatives, and the gradients that it does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from types import CodeType
from typing import Any

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.derivatives import Function, VJPFunction
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.jax.framework import Jax, JaxVJP
from gradcheck_cli.engines.layer.source_lines import Places, returned

NO_LOOP = "Reverse-mode differentiation does not work for lax.while_loop"
_NO_TRANSPOSE = "Transpose rule (for reverse-mode differentiation)"  # ... not implemented
_NO_FORWARD = "(jvp) to a custom_vjp function"  # how JAX's TypeError ends
_ADVICE = {
    NO_LOOP: "forward mode supports such loops: `modes: [forward]` checks only that mode",
    _NO_TRANSPOSE: "a custom jvp must be linear in its tangents: JAX transposes it",
}

_WRONG_JVPS = {
    "must produce primal and tangent outputs with equal container": (
        "your jvp does not return a tangent for each output"
    ),
    "must produce primal and tangent outputs with corresponding shapes": (
        "your jvp returns a tangent whose shape or dtype is not that of the output"
    ),
}
_TYPES = re.compile(r"Expected (\S+) \(.*\) but got (\S+)\.$")
_OF_TYPES = "your jvp returns a tangent {1} for an output {0}"
_CHECKED = "_flatten_bwd"  # where JAX looks at what a backward returned, in its variables


class LayerJax(Jax):
    """JAX without a table of operations. All outputs of a layer get their cotangents together."""

    def __init__(self, dtype: str) -> None:
        super().__init__({}, dtype)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        made = JaxVJP(self, function, sources)
        targets, rest = made.run(None)
        return targets, rest, made


def no_gradient(
    fw: Jax,
    call: Callable[[Mapping[str, Any]], list[Any]],
    inputs: Mapping[str, Any],
    names: Sequence[str],
) -> frozenset[str]:
    """The leaves for which the backward pass of the whole layer has no cotangent: a custom gradient
    returned `None`, or no path leads there. JAX makes zeros of both;
    `jax.custom_vjp(symbolic_zeros=True)` distinguishes them from computed zeros."""
    jax = fw.jax
    reached: set[str] = set()

    def marked(name: str, x: Any) -> Any:
        def handed_back(_: None, y_bar: Any) -> tuple[Any]:
            if not isinstance(y_bar, jax.custom_derivatives.SymbolicZero):
                reached.add(name)
            return (y_bar,)

        same = jax.custom_vjp(lambda x: x)
        same.defvjp(lambda x: (x.value, None), handed_back, symbolic_zeros=True)
        return same(x)

    def of_marked(*moved: Any) -> list[Any]:
        pairs = zip(names, moved, strict=True)
        return call({**inputs, **{n: marked(n, x) for n, x in pairs}})

    arrays, back = jax.vjp(of_marked, *(inputs[name] for name in names))
    back([jax.numpy.ones(y.shape, y.dtype) for y in arrays])
    return frozenset(names) - reached


@contextmanager
def rules_are_whole() -> Iterator[None]:
    """Raise WrongKind for JAX's errors about a custom rule that returns other parts, shapes or
    dtypes than it must."""
    try:
        yield
    except (TypeError, ValueError) as error:
        fault = _of_backward(error)
        for words, meaning in _WRONG_JVPS.items():
            if words in str(error):
                types = _TYPES.search(str(error))
                what = meaning if types is None else _OF_TYPES.format(*types.groups())
                fault = WrongKind(what)
                fault.place = _last_place(error)
        if fault is None:
            raise
        raise fault from error


def _of_backward(error: Exception) -> WrongKind | None:
    """The fault of a user's backward, if the error is about what it returned."""
    from jax.tree_util import keystr

    from gradcheck_cli.engines.jax.trees import key_of_entry

    last = [frame for frame, _ in walk_tb(error.__traceback__)][-1:]
    if not last or last[0].f_code.co_name != _CHECKED:
        return None
    seen = last[0].f_locals
    own = getattr(seen["f"], "func", seen["f"])
    returned_value, path = seen.get("py_cts_in"), seen.get("kp")
    count = len(seen["in_tree"].children())
    if path is None and isinstance(returned_value, tuple) and len(returned_value) != count:
        said = f"a tuple of {len(returned_value)}; it must have a gradient for each of {count}"
        fault = WrongKind(f"your backward returns {said} arguments")
    elif path is None and not isinstance(returned_value, tuple):
        what = "None" if returned_value is None else f"a {type(returned_value).__name__}"
        what = "an array" if hasattr(returned_value, "shape") else what
        said = f"{what}; it must return a tuple with a gradient for each of {count} arguments"
        fault = WrongKind(f"your backward returns {said}")
    elif path is None:
        fault = WrongKind("your backward returns a gradient with other parts than its argument")
    elif "a_" in seen:
        given, expected = seen["a_"], seen["a"]
        which = f"argument {path[0].idx + 1}"
        part = keystr(tuple(path[1:]))
        which = f"`{part}` of {which}" if part else which
        fault = WrongKind(
            f"your backward returns a gradient {given.str_short()} for {which}, which is "
            f"{expected.str_short()}"
        )
        if len(given.shape) > len(expected.shape):
            fault.detail = (
                "sum it over the axes along which the argument was broadcast, and over no others"
            )
    else:
        return None
    keys = () if path is None else tuple(map(key_of_entry, path))
    fault.place = returned(own, *keys)
    return fault


def _last_place(error: Exception) -> Place | None:
    """The user's innermost line in the traceback of an error."""
    step = error.__traceback__
    stack: list[tuple[CodeType, int]] = []
    while step is not None:
        stack.insert(0, (step.tb_frame.f_code, step.tb_lasti))
        step = step.tb_next
    return Places(__name__).of_stack(*zip(*stack, strict=True)) if stack else None


@contextmanager
def no_jvp() -> Iterator[None]:
    """Raise Unsupported for JAX's errors about a function without forward mode."""
    try:
        with rules_are_whole():
            yield
    except TypeError as error:
        if _NO_FORWARD not in str(error):
            raise
        raise Unsupported("JAX has no forward mode through a jax.custom_vjp") from error


@contextmanager
def advising() -> Iterator[None]:
    """Add advice to JAX's errors about missing reverse mode. If a tangent passes through a
    nonlinear operation, the jvp is a custom one: JAX's own rules are linear."""
    try:
        with rules_are_whole():
            yield
    except (NotImplementedError, ValueError) as error:
        for words, advice in _ADVICE.items():
            if words in str(error):
                error.add_note(advice)
        raise
