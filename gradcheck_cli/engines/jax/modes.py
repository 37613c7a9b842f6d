"""JAX for layers: its errors for missing derivatives, and the gradients that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.derivatives import Function, VJPFunction
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.jax.framework import Jax, JaxVJP

NO_LOOP = "Reverse-mode differentiation does not work for lax.while_loop"
_NO_TRANSPOSE = "Transpose rule (for reverse-mode differentiation)"  # ... not implemented
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
    """Raise WrongKind for JAX's errors about a custom rule that returns too few parts."""
    try:
        yield
    except TypeError as error:
        for words, meaning in _WRONG_RULES.items():
            if words in str(error):
                raise WrongKind(meaning) from error
        raise


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
