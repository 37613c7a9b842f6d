"""JAX as layers need it: what it raises where it has no derivative, and what it has none of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.derivatives import Function, VJPFunction
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.jax.framework import Jax, JaxVJP

NO_LOOP = "Reverse-mode differentiation does not work for lax.while_loop"
_NO_TRANSPOSE = "Transpose rule (for reverse-mode differentiation)"  # and that there is none
_NO_COTANGENT = "so the shapes do not match"  # how JAX's ValueError of a custom_vjp ends
_NO_FORWARD = "(jvp) to a custom_vjp function"  # how JAX's TypeError ends
_ADVICE = {
    NO_LOOP: "forward mode supports such loops: `modes: [forward]` checks only that mode",
    _NO_TRANSPOSE: "a custom jvp must be linear in its tangents: JAX transposes it",
    _NO_COTANGENT: (
        "the cotangent of an argument must have the argument's shape: sum over the axes along "
        "which it was broadcast, and over no others"
    ),
}

_WRONG_RULES = {
    "must produce primal and tangent outputs with equal container": (
        "a rule of jax.custom_jvp does not give a tangent for each output"
    ),
    "must produce an output with the same container": (
        "a backward rule of jax.custom_vjp does not give a cotangent for each argument"
    ),
}


class LayerJax(Jax):
    """JAX without a table of operations. A layer's outputs have their cotangents together."""

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
    """The leaves for which the backward pass of the whole layer has no cotangent at all:
    `None` of a custom gradient, or no path. JAX makes zeros of both; distinguished from zeros that
    were computed by `jax.custom_vjp(symbolic_zeros=True)`."""
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
    """What JAX raises where a rule lacks a part of its answer is raised as WrongKind."""
    try:
        yield
    except TypeError as error:
        for words, meaning in _WRONG_RULES.items():
            if words in str(error):
                raise WrongKind(meaning) from error
        raise


@contextmanager
def no_jvp() -> Iterator[None]:
    """What JAX raises where a function has no forward mode is raised as Unsupported."""
    try:
        with rules_are_whole():
            yield
    except TypeError as error:
        if _NO_FORWARD not in str(error):
            raise
        raise Unsupported("JAX has no forward mode through a jax.custom_vjp") from error


@contextmanager
def advising() -> Iterator[None]:
    """What JAX raises where it has no reverse mode is said in other words, too. A tangent that goes
    through what is not linear is that of a stated jvp: its own rules are linear."""
    try:
        with rules_are_whole():
            yield
    except (NotImplementedError, ValueError) as error:
        for words, advice in _ADVICE.items():
            if words in str(error):
                error.add_note(advice)
        raise
