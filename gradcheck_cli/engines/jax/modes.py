"""Gradients, forward mode and second derivatives of layers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.subject import Call

if TYPE_CHECKING:
    from gradcheck_cli.engines.jax.layer import JaxSubject

MOST_COLUMNS = 1024  # for one gradient of a layer without a reverse mode: seconds

_NO_LOOP = "Reverse-mode differentiation does not work for lax.while_loop"
_NO_TRANSPOSE = "Transpose rule (for reverse-mode differentiation)"  # and that there is none
_NO_COTANGENT = "so the shapes do not match"  # how JAX's ValueError of a custom_vjp ends
_NO_FORWARD = "(jvp) to a custom_vjp function"  # how JAX's TypeError ends
_ADVICE = {
    _NO_LOOP: "forward mode has such loops: `modes: [forward]` checks that alone",
    _NO_TRANSPOSE: "a custom jvp must be linear in its tangents: JAX transposes it",
    _NO_COTANGENT: (
        "the cotangent of an argument has its shape: a sum over the axes along which it was "
        "broadcast, and over no other"
    ),
}

Inputs = Mapping[str, Any]
Pulled = tuple[Sequence[Any], list[Sequence[Any]]]


def pulled(subject: JaxSubject, inputs: Inputs, wrt: tuple[str, ...], call: Call) -> Pulled:
    """The outputs, and the gradients for every row of cotangents."""
    assert call.cotangents is not None
    if subject.mode == "forward":  # there is no other, as was seen before
        return _by_columns(subject, inputs, wrt, call, call.cotangents)
    try:
        with _advising():
            return _by_rows(subject, inputs, wrt, call, call.cotangents)
    except ValueError as error:
        if not subject.request.forward or _NO_LOOP not in str(error):
            raise
        subject.mode = "forward"
        return _by_columns(subject, inputs, wrt, call, call.cotangents)


def _by_rows(
    subject: JaxSubject, inputs: Inputs, wrt: tuple[str, ...], call: Call, rows: Array
) -> Pulled:
    every = (subject.cotangents(row, call.used_outputs) for row in rows)
    if not subject.whole:
        arrays, pull = _vjp(subject, wrt, inputs)
        subject.run_between(call)
        return arrays, [pull(bars) for bars in every]

    def derivative(inputs: Inputs, bars: list[Any]) -> Any:
        arrays, pull = _vjp(subject, wrt, inputs)
        return arrays, pull([bar.astype(y.dtype) for bar, y in zip(bars, arrays, strict=True)])

    subject.run_between(call)
    evaluated = subject.evaluated("derivative", wrt, derivative)
    ran = [evaluated(inputs, bars) for bars in every]
    return ran[0][0], [gradients for _, gradients in ran]


def _by_columns(
    subject: JaxSubject, inputs: Inputs, wrt: tuple[str, ...], call: Call, rows: Array
) -> Pulled:
    """The same of a layer that JAX has no reverse mode for. Raises Unsupported where its Jacobian
    has too many columns."""
    count = sum(inputs[name].size for name in wrt)
    if count > MOST_COLUMNS:
        raise Unsupported(
            f"JAX has no reverse mode for it, and a gradient by forward mode takes {count} passes: "
            f"more than {MOST_COLUMNS}"
        )
    arrays = subject.evaluated("value", (), subject.call)(inputs)
    subject.run_between(call)
    used = np.zeros(rows.shape[1])
    for one in subject.outputs:
        used[one.start : one.start + one.size] = (
            call.used_outputs is None or one.name in call.used_outputs
        )
    passes: list[Sequence[Any]] = [()] * len(rows)
    for name in wrt:
        shape = inputs[name].shape
        with np.errstate(all="ignore"):
            products = (rows * used) @ _columns(subject, inputs, name)
        passes = [
            (*found, subject.array(product.reshape(shape)))
            for found, product in zip(passes, products, strict=True)
        ]
    return arrays, passes


def _columns(subject: JaxSubject, inputs: Inputs, name: str) -> Array:
    """The Jacobian of one leaf, (m, n), by forward mode along all of its entries at once."""
    shape, size = inputs[name].shape, inputs[name].size

    def pushing(inputs: Inputs, units: Any) -> Any:
        def along(unit: Any) -> Any:
            return subject.jax.jvp(_of(subject, (name,), inputs), [inputs[name]], [unit])[1]

        return subject.jax.vmap(along)(units)

    units = subject.array(np.eye(size).reshape(size, *shape))
    found = subject.evaluated("columns", (name,), pushing)(inputs, units)
    columns = [np.asarray(part).astype(np.float64).reshape(size, -1).T for part in found]
    return np.concatenate(columns)


def _vjp(subject: JaxSubject, wrt: Sequence[str], inputs: Inputs) -> tuple[Any, Any]:
    found: tuple[Any, Any] = subject.jax.vjp(
        _of(subject, wrt, inputs), *(inputs[name] for name in wrt)
    )
    return found


def _of(subject: JaxSubject, names: Sequence[str], inputs: Inputs) -> Callable[..., Any]:
    """The layer as a function of some of its inputs."""
    return lambda *moved: subject.call({**inputs, **dict(zip(names, moved, strict=True))})


def no_gradient(subject: JaxSubject, inputs: Inputs, names: Sequence[str]) -> frozenset[str]:
    """Those of these leaves for which the backward pass of the whole layer has no cotangent at all:
    `None` of a custom gradient, or no path. JAX makes zeros of both; told apart from zeros that
    were computed by `jax.custom_vjp(symbolic_zeros=True)`."""
    if subject.mode == "forward":
        return frozenset()
    jax = subject.jax
    reached: set[str] = set()

    def marked(name: str, x: Any) -> Any:
        def handed_back(_: None, y_bar: Any) -> tuple[Any]:
            if not isinstance(y_bar, jax.custom_derivatives.SymbolicZero):
                reached.add(name)
            return (y_bar,)

        same = jax.custom_vjp(lambda x: x)
        same.defvjp(lambda x: (x.value, None), handed_back, symbolic_zeros=True)
        return same(x)

    def call(*moved: Any) -> list[Any]:
        pairs = zip(names, moved, strict=True)
        found: list[Any] = subject.call({**inputs, **{n: marked(n, x) for n, x in pairs}})
        return found

    arrays, pull = jax.vjp(call, *(inputs[name] for name in names))
    pull([jax.numpy.ones(y.shape, y.dtype) for y in arrays])
    return frozenset(names) - reached


def jvp(subject: JaxSubject, tangents: Mapping[str, Array]) -> Array:
    """As `subject.Subject` has it, like the next two."""
    names = tuple(tangents)
    with subject.ready():
        directions = [subject.array(tangents[name]) for name in names]
        try:
            found = _pushed(subject, subject.inputs({}), names, directions)
        except TypeError as error:
            if _NO_FORWARD not in str(error):
                raise
            raise Unsupported("JAX has no forward mode through a jax.custom_vjp") from error
        return subject.flat(found)


def _pushed(
    subject: JaxSubject, inputs: Inputs, names: tuple[str, ...], directions: Sequence[Any]
) -> Sequence[Any]:
    def pushing(inputs: Inputs, directions: Sequence[Any]) -> Any:
        primals = [inputs[name] for name in names]
        return subject.jax.jvp(_of(subject, names, inputs), primals, directions)[1]

    found: Sequence[Any] = subject.evaluated("push", names, pushing)(inputs, directions)
    return found


def hvp_reverse_over_reverse(
    subject: JaxSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    wrt, names = subject.moving(), tuple(tangents)

    def gradient(inputs: Inputs, bars: list[Any], along: Sequence[Any]) -> Any:
        def product(*moved: Any) -> Any:
            arrays = dict(zip(wrt, moved, strict=True))
            _, pull = _vjp(subject, wrt, {**inputs, **arrays})
            first = dict(zip(wrt, pull(bars), strict=True))
            pairs = zip(names, along, strict=True)
            return sum((first[name] * other).sum() for name, other in pairs if name in first)

        sources = [inputs[name] for name in wrt]
        return subject.jax.grad(product, range(len(wrt)))(*sources)

    with subject.ready():
        along = [subject.array(tangent) for tangent in tangents.values()]
        evaluated = subject.evaluated("reverse over reverse", (*wrt, "along", *names), gradient)
        return _second(subject, evaluated(subject.inputs({}), subject.cotangents(row), along))


def hvp_forward_over_reverse(
    subject: JaxSubject, row: Array, tangents: Mapping[str, Array]
) -> dict[str, Array | None]:
    wrt = subject.moving()

    def gradient(inputs: Inputs, bars: list[Any], along: Sequence[Any]) -> Any:
        def first(*moved: Any) -> Any:
            _, pull = _vjp(subject, wrt, {**inputs, **dict(zip(wrt, moved, strict=True))})
            return pull(bars)

        return subject.jax.jvp(first, [inputs[name] for name in wrt], along)[1]

    with subject.ready():
        inputs = subject.inputs({})
        still = {name: np.zeros(inputs[name].shape) for name in wrt}
        along = [subject.array(tangents.get(name, still[name])) for name in wrt]
        evaluated = subject.evaluated("forward over reverse", wrt, gradient)
        return _second(subject, evaluated(inputs, subject.cotangents(row), along))


def _second(subject: JaxSubject, found: Sequence[Any]) -> dict[str, Array | None]:
    pairs = zip(subject.moving(), found, strict=True)
    return {name: np.asarray(grad).astype(np.float64).reshape(-1) for name, grad in pairs}


@contextmanager
def _advising() -> Iterator[None]:
    """What JAX raises where it has no reverse mode is said in other words, too. A tangent that goes
    through what is not linear is that of a stated jvp: its own rules are linear."""
    try:
        yield
    except (NotImplementedError, ValueError) as error:
        for words, advice in _ADVICE.items():
            if words in str(error):
                error.add_note(advice)
        raise
