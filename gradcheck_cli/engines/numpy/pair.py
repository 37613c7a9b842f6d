"""Pairs of a forward and a backward function in NumPy: how to find them, and how to call backward.

    backward(upstream)            of an object that remembers its last forward run
    backward(upstream, cache)     if forward returns (output, cache); with one input, the cache may
                                  have any name except the input's
    backward(upstream, x, w)      with the inputs of forward, by name or in their order
    backward(upstream, upstream2) of an object that remembers its last forward run, which returned
                                  as many arrays; parameters may be None by default
    backward(upstream, upstream2, cache)    if forward returns (y, y2, cache) or ((y, y2), cache)

A parameter `out`, `output` or `y` of the third kind is the output. If it is the only one, forward
may return the output twice, as output and cache. With several outputs, `upstream` has the structure
of forward's result. Backward returns one gradient, a tuple in the order of forward's inputs (all of
them, or the floating ones), or a dictionary by name ("x" or "dx").
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import WrongKind
from gradcheck_cli.engines.layer.binding import Arranged, BadCall, arrange, called
from gradcheck_cli.engines.layer.loading import (
    NoSuchLayer,
    backward_beside,
    callable_names,
    load_layer,
    stem_of,
)
from gradcheck_cli.engines.layer.results import flattened

Style = Literal["upstream", "upstreams", "upstreams and cache", "cache", "input or cache", "inputs"]

WAYS = "backward(upstream), backward(upstream, cache), or backward(upstream, x, ...)"
CACHES = ("cache", "ctx", "context", "saved", "residuals")
OUTPUTS = ("out", "output", "y")
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Pair:
    """A forward and a backward function. `owner` is the object that has both, unless that is a
    module; it may remember things."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    owner: Any = None

    def copied(self) -> Pair:
        """The pair, bound to a copy of its owner."""
        if self.owner is None:
            return self
        return _of(copy.deepcopy(self.owner))


def load_pair(implementation: Implementation) -> Any:
    """The target as its module made it: an object, a class or a Pair.

    The backward of a function `affine` or `affine_forward` is `affine_backward`. The name `affine`
    may also stand for `affine_forward` and `affine_backward`. Raises NoSuchLayer.
    """
    live = implementation.live
    if live is not None:
        beside = backward_beside(live)
        return live if beside is None else Pair(live, beside)
    stem = stem_of(implementation.target)
    forward, backward = (
        replace(implementation, target=f"{stem}_{half}") for half in ("forward", "backward")
    )
    try:
        found = load_layer(implementation)
    except NoSuchLayer as error:
        try:
            return Pair(load_layer(forward), load_layer(backward))
        except NoSuchLayer:
            raise error from None
    if not inspect.isfunction(found):
        return found
    try:
        return Pair(found, load_layer(backward))
    except NoSuchLayer:
        return found


def pair_of(layer: Any, implementation: Implementation) -> tuple[Pair, bool]:
    """The pair, and whether a constructor took the arguments. Raises NoSuchLayer."""
    if isinstance(layer, Pair):
        return layer, False
    made = inspect.isclass(layer)
    if made:
        layer = layer(*implementation.args, **implementation.kwargs)
    for half in ("forward", "backward"):
        if not callable(getattr(layer, half, None)):
            name = implementation.target.rpartition(":")[2]
            beside = f"`{stem_of(name)}_backward`"
            missing = f"{beside} beside it" if inspect.isfunction(layer) else f"`{half}`"
            message = f"{implementation.target} has no {missing}"
            pair = f"a function `{name}` beside its {beside}"
            needs = f"a layer in NumPy is a class with `forward` and `backward`, or {pair}"
            raise NoSuchLayer(message, "\n".join(filter(None, (needs, callable_names(layer)))))
    if inspect.ismodule(layer):
        return Pair(layer.forward, layer.backward), False
    return _of(layer), made


def _of(owner: Any) -> Pair:
    return Pair(owner.forward, owner.backward, owner)


@dataclass(frozen=True, slots=True)
class Convention:
    """How to call a pair. `order` has the inputs in the order of forward's arguments."""

    style: Style
    order: tuple[str, ...]
    arguments: Arranged
    extra: Mapping[str, Any]  # fixed keyword arguments that backward takes too
    rest: tuple[str, ...]  # parameters of backward after the first
    optional: int  # further parameters, which are None by default
    by_name: bool
    open_ended: bool  # backward has a parameter `*args`

    def pulled(self, pair: Pair, upstream: Any, ran: Run) -> Any:
        """The result of backward."""
        if self.style == "upstream":
            return pair.backward(upstream, **self.extra)
        if self.style == "upstreams":
            return pair.backward(*upstream, **self.extra)
        if self.style == "upstreams and cache":
            return pair.backward(*upstream, ran.cache, **self.extra)
        if self.style in ("cache", "input or cache"):
            return pair.backward(upstream, ran.cache, **self.extra)
        if self.by_name:
            known = {**ran.inputs, **dict.fromkeys(OUTPUTS, ran.output), **ran.inputs}
            return pair.backward(upstream, *(known[name] for name in self.rest), **self.extra)
        return pair.backward(upstream, *(ran.inputs[name] for name in self.order), **self.extra)

    def ran(self, pair: Pair, inputs: Mapping[str, Any]) -> Run:
        """One forward run. Raises WrongKind if backward takes a cache and forward returns none."""
        args, kwargs = self.arguments(inputs)
        with np.errstate():  # which the forward may set
            result = called(pair.forward, args, kwargs)
        if self.style == "upstreams and cache":
            return Run(inputs, *self._outputs_and_cache(result))
        two = isinstance(result, tuple) and len(result) == 2
        if two and result[0] is result[1] and self._wants_output(inputs):
            return Run(inputs, result[0], None)
        if self.style == "input or cache" and not two:
            return Run(inputs, result, inputs[self.order[0]])
        if self.style in ("upstream", "upstreams", "inputs"):
            return Run(inputs, result, None)
        if not two:
            raise WrongKind("backward takes a cache, so forward must return (output, cache)")
        return Run(inputs, *result)

    def _outputs_and_cache(self, result: Any) -> tuple[Any, Any]:
        """The outputs, one for each upstream gradient of backward, and the cache."""
        count = len(self.rest)
        if isinstance(result, tuple) and len(result) == count + 1:
            return result[:-1], result[-1]
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], tuple | list):
            outputs, cache = result
            if len(outputs) == count:
                return outputs, cache
        raise WrongKind(
            f"backward takes {count} upstream gradients and a cache, so forward must return {count}"
            " outputs and the cache"
        )

    def explain(self, error: Exception, pair: Pair, ran: Run) -> None:
        """Explain, in an error that backward raised or that its gradients caused, why a tuple from
        forward counts as several outputs."""
        several = isinstance(ran.output, tuple) and len(ran.output) > 1
        if self.style != "inputs" or not self.rest or not several:
            return
        upstream, *_ = inspect.signature(pair.backward).parameters
        parts, called_so = len(ran.output), ", ".join((upstream, *self.rest))
        taken = f"`{self.rest[0]}` is an input" if self.by_name else "those are inputs"
        words = (
            f"forward returns a tuple: {parts} outputs, so `{upstream}` has {parts} parts. It would"
            f" be (output, cache) if backward({called_so}) took a cache: {taken}; write "
            f"backward({upstream}, cache)"
        )
        if isinstance(error, WrongKind):
            error.detail = words
        else:
            error.add_note(words)

    def for_outputs(self, pair: Pair, inputs: Mapping[str, Any]) -> Convention:
        """The convention for several outputs. If forward returns as many arrays as backward has
        parameters, and no name tells more, the parameters may be the upstream gradients of all
        outputs. They are if backward reads attributes that forward stored in the object, or if
        backward returns zeros for zeros, as a linear function does, only in this way. Raises
        BadCall if backward fits no result of forward."""
        named = self.by_name or self.rest[:1] in [(name,) for name in CACHES]
        more = self.rest or self.optional or self.open_ended
        if named or pair.owner is None or not more or self.style == "upstreams and cache":
            return self
        each, tried = replace(self, style="upstreams"), pair.copied()
        before = _attributes(tried.owner)
        if not self._fits(each.ran(tried, inputs).output):
            if self.style == "upstreams":
                shown = ", ".join(("upstream", *self.rest))
                raise BadCall(f"backward({shown}) is none of {WAYS}")
            return self
        if self.style == "upstream" and self._gives_gradients(pair, inputs):
            return self
        put = {n for n, value in _attributes(tried.owner).items() if before.get(n) != value}
        code = getattr(inspect.unwrap(pair.backward), "__code__", None)
        if code is not None and put.intersection(code.co_names):
            return each
        only = each._is_linear_at_zero(pair, inputs) and not self._is_linear_at_zero(pair, inputs)
        return each if only else self

    def _fits(self, result: Any) -> bool:
        """Whether the result is several arrays, and backward has a parameter for each."""
        return (
            isinstance(result, tuple | list)
            and (self.open_ended or 0 <= len(result) - len(self.rest) - 1 <= self.optional)
            and len(result) > 1
            and all(isinstance(y, np.ndarray | np.generic) and y.dtype.kind in "fc" for y in result)
        )

    def _is_linear_at_zero(self, pair: Pair, inputs: Mapping[str, Any]) -> bool:
        """Whether backward returns zeros for upstream gradients of zero."""
        arrays = self._at_zero(pair, inputs)
        return arrays is not None and not any(map(np.any, arrays))

    def _gives_gradients(self, pair: Pair, inputs: Mapping[str, Any]) -> bool:
        """Whether the results of backward have the shapes of inputs."""
        arrays = self._at_zero(pair, inputs)
        shapes = {np.shape(value) for value in inputs.values()}
        return arrays is not None and {np.shape(array) for array in arrays} <= shapes

    def _at_zero(self, pair: Pair, inputs: Mapping[str, Any]) -> list[Any] | None:
        """The arrays that backward returns for upstream gradients of zero, or None if it raises."""
        tried = pair.copied()
        try:
            run = self.ran(tried, inputs)
            several = isinstance(run.output, tuple | list)
            zeros = [np.zeros_like(y) for y in run.output] if several else np.zeros_like(run.output)
            found = self.pulled(tried, zeros, run)
        except Exception:  # backward does not support this call
            return None
        numbers = (np.ndarray, np.generic, float)
        return [array for _, array in flattened(found, lambda part: isinstance(part, numbers))]

    def _wants_output(self, inputs: Mapping[str, Any]) -> bool:
        """Whether backward takes only the output. If forward returns it twice (`return y, y`),
        these are the output and the cache."""
        return self.by_name and len(self.rest) == 1 and self.rest[0] not in inputs


@dataclass(frozen=True, slots=True)
class Run:
    """The inputs and results of a forward run, which backward needs."""

    inputs: Mapping[str, Any]
    output: Any
    cache: Any


def _attributes(owner: Any) -> dict[str, int]:
    """The identities of an object's attributes. They change in a run that the object remembers."""
    return {name: id(value) for name, value in getattr(owner, "__dict__", {}).items()}


def convention(
    pair: Pair, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Convention:
    """How forward takes inputs `names`, and backward its arguments. Raises BadCall."""
    taken = list(inspect.signature(pair.forward).parameters)
    order = [n for n in taken if n in names] if set(names) <= set(taken) else list(names)
    parameters = list(inspect.signature(pair.backward).parameters.values())
    extra = {n: v for n, v in kwargs.items() if any(p.name == n for p in parameters[1:])}
    places = [p for p in parameters if p.kind in _BY_PLACE and p.name not in extra]
    rest = tuple(p.name for p in places[1:] if p.default is p.empty or p.name in names)
    optional = sum(p.default is None and p.name not in rest for p in places[1:])
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not places and not open_ended:
        raise BadCall(f"backward takes no upstream gradient: {WAYS}")
    named = [p.name for p in places]
    if set(names) < set(named) and named[0] in names:
        shown = ", ".join(named)
        raise BadCall(f"backward({shown}) does not take the upstream gradient first: {WAYS}")
    by_name = set(rest) <= {*names, *OUTPUTS} and bool(rest)
    style = _style(rest, order, by_name, open_ended)
    if style == "upstreams" and pair.owner is None:
        raise BadCall(f"backward({', '.join(named)}) is none of {WAYS}")
    if style == "upstream" and pair.owner is None and len(places) > 1:
        raise BadCall(f"backward needs the inputs: {WAYS}")
    arguments = arrange(pair.forward, names, args, kwargs)
    return Convention(style, tuple(order), arguments, extra, rest, optional, by_name, open_ended)


def _style(rest: Sequence[str], order: Sequence[str], by_name: bool, open_ended: bool) -> Style:
    """The style of a backward with the further parameters `rest`, if forward takes the inputs
    `order`."""
    if not rest and not open_ended:
        return "upstream"
    if by_name:
        return "inputs"
    if len(rest) == 1:
        return "cache" if rest[0] in CACHES or len(order) != 1 else "input or cache"
    if rest and rest[-1] in CACHES:
        return "upstreams and cache"
    return "inputs" if open_ended or len(rest) == len(order) else "upstreams"


def by_input(result: Any, order: Sequence[str], floating: Sequence[str]) -> dict[str, Any]:
    """The gradients that backward returned, by the names of inputs (or of parameters, if it
    returned a dictionary). Raises WrongKind if the gradients cannot be assigned."""
    if result is None:
        return {}
    if isinstance(result, Mapping):
        return {_without_prefix(str(key), order): gradient for key, gradient in result.items()}
    if not isinstance(result, tuple | list):
        result = (result,)
    for names in (floating, order):
        if len(result) == len(names):
            return dict(zip(names, result, strict=True))
    plural = "" if len(result) == 1 else "s"
    raise WrongKind(
        f"backward returns {len(result)} gradient{plural}, but forward has {len(floating)} "
        f"floating-point inputs: {', '.join(floating)}"
    )


def _without_prefix(key: str, names: Sequence[str]) -> str:
    for prefix in ("d", "d_", "grad_"):
        if key not in names and key.startswith(prefix) and key[len(prefix) :] in names:
            return key[len(prefix) :]
    return key
