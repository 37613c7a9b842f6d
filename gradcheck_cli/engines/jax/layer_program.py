"""The value and the whole gradient of a JAX layer, as a program that holds for all inputs.

JAX traces the layer, with its gradient, on arrays without numbers: code that cannot read a number
cannot branch on it. The trace is refused if anything in it asked for numbers, even if the layer
caught the error, and if the gradient may not be the derivative of the value. Runs at points must
have the results of the trace to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.jax.recorder import JAX_FOLDER, JaxRecorder, traced
from gradcheck_cli.engines.jax.wide import equations
from gradcheck_cli.engines.jax.xla_rounding import refuse_rewritten, refuse_unknown_rounding
from gradcheck_cli.engines.layer.generality import (
    NEEDS_NUMBERS,
    OTHER_DTYPE,
    OTHER_INPUTS,
    program_or_reason,
    refuse_effects,
    refuse_other_numbers,
    refuse_unknown_kinds,
)
from gradcheck_cli.engines.layer.layer_subject import LayerSubject
from gradcheck_cli.engines.layer.lifting import NotLifted, lifted_outputs
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.temporarily import temporarily

_STATED = (jax.custom_jvp, jax.custom_vjp)
_NEEDING = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""What JAX raises if code asks for numbers that there are none of."""
_CUTS = ("stop_gradient", "custom_linear_solve")
"""Primitives by which a layer may state a derivative. Functions of JAX state the right ones."""
_WRAPPERS = ("tree_util.py", "traceback_util.py")
_CALLS = ("jit", "pjit")


def layer_program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    """The operations of the layer for its value and its whole gradient, valid for all values of the
    inputs `searched`. The layer is recorded in float64 (`wide`) and traced in its dtype (`narrow`),
    in which it runs at its own inputs and at `points`. If this proves nothing, the result has a
    reason in place of a program."""
    return program_or_reason(lambda: _program(wide, narrow, searched, points))


def _program(
    wide: LayerSubject, narrow: LayerSubject, searched: Sequence[str], points: Sequence[Values]
) -> GradientProgram:
    refuse_unknown_rounding()
    refuse_unknown_kinds(narrow, searched)
    refuse_effects(narrow)
    _refuse_stated_derivatives(narrow)
    own = _Trace(narrow)
    with wide.ready({}):
        recorder, inputs = JaxRecorder(), wide.inputs({})
        recorder.execution.is_general = True
        results = recorder.record(_passes(wide, inputs), list(inputs.values()))
    there = _Trace(wide)
    if there.signature != own.signature:
        raise NotLifted(OTHER_DTYPE)
    refuse_other_numbers(there.constants, own.constants, FORMATS[narrow.dtype])
    for at in ({}, *points):
        own.refuse_other_results(at)
    span = wide.request.implementation.span
    slots = {word_of(name): results[i] for i, name in enumerate(inputs)}
    lifted = lifted_outputs(recorder.execution, slots, results[len(inputs) :], span)
    return GradientProgram(lifted.program, lifted.constants)


def _passes(subject: LayerSubject, inputs: Values) -> Callable[..., list[Any]]:
    """The function from all leaves to these, the value and a row of gradients for each number of
    it."""
    rows = np.eye(subject.outputs[0].size)

    def function(*arrays: Any) -> list[Any]:
        given = dict(zip(inputs, arrays, strict=True))
        found, vjp = subject.vjp(given, subject.wrt)
        for row in rows:
            found = [*found, *vjp(subject.cotangents(row))]
        return [*arrays, *found]

    return function


class _Trace:
    """What the layer runs in its dtype, traced without numbers. `signature` lists the operations,
    with one word for the dtype, and `constants` the floating numbers among them."""

    def __init__(self, subject: LayerSubject) -> None:
        self._subject = subject
        self.constants: list[Array] = []
        with subject.ready({}):
            inputs = subject.inputs({})
            with _without_numbers():
                self._closed, self._present = traced(
                    _passes(subject, inputs), list(inputs.values())
                )
        refuse_rewritten(self._closed.jaxpr)
        self.signature = self._form(self._closed)

    def refuse_other_results(self, at: Values) -> None:
        """Raise NotLifted if the layer has other results at a point than the trace."""
        subject = self._subject
        with subject.ready(at):
            arrays = subject.inputs(at)
            found = iter(core.jaxpr_as_fun(self._closed)(*arrays.values()))
            every = [next(found) if present else None for present in self._present]
        output, *gradients = every[len(arrays) :]
        size = subject.outputs[0].size
        ran = subject.run(Call(values=at, cotangents=np.eye(size)))
        same = np.array_equal(_numbers(output).ravel(), ran.output, equal_nan=True)
        for place, name in enumerate(subject.wrt):
            rows = [_numbers(one) for one in gradients[place :: len(subject.wrt)]]
            theirs = ran.gradients.get(name)
            theirs = np.zeros(np.shape(rows)) if theirs is None else theirs
            same &= np.array_equal(np.ravel(rows), np.ravel(theirs), equal_nan=True)
        if not same:
            raise NotLifted(OTHER_INPUTS)

    def _form(self, x: Any) -> Any:
        if isinstance(x, core.ClosedJaxpr):
            self.constants += [_numbers(one) for one in x.consts if _is_floating(one.dtype)]
            return self._form(x.jaxpr)
        if isinstance(x, core.Jaxpr):
            places = {var: place for place, var in enumerate((*x.constvars, *x.invars))}
            rows = []
            for equation in x.eqns:
                places.update((var, len(places)) for var in equation.outvars)
                params = equation.params.items()
                rows.append(
                    (
                        equation.primitive.name,
                        [self._atom(atom, places) for atom in equation.invars],
                        [self._form(var.aval) for var in equation.outvars],
                        [(key, self._form(value)) for key, value in params if key != "name"],
                    )
                )
            return rows, [self._atom(atom, places) for atom in x.outvars]
        if isinstance(x, dict):
            return [(key, self._form(value)) for key, value in x.items()]
        if isinstance(x, (list, tuple)):
            return [self._form(value) for value in x]
        if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, np.ndarray):
            return x.shape, self._dtype(x.dtype)
        if isinstance(x, np.dtype) or (isinstance(x, type) and hasattr(x, "dtype")):
            return self._dtype(np.dtype(x))
        words = repr(x)
        return type(x).__name__ if " at 0x" in words else words

    def _atom(self, atom: Any, places: dict[Any, int]) -> Any:
        if not isinstance(atom, core.Literal):
            return places[atom]
        if not _is_floating(atom.aval.dtype):
            return repr(np.asarray(atom.val).tolist())
        self.constants.append(_numbers(atom.val))
        return "number"

    def _dtype(self, dtype: Any) -> str:
        """The dtype, with one word for that of the search, and one for the whole numbers, which
        have more digits beside float64."""
        if dtype == self._subject.dtype:
            return "dtype"
        if _is_floating(dtype):
            raise NotLifted(f"an operation gives {dtype}, and not the dtype of the search")
        return "int" if dtype in ("int32", "int64") else str(dtype)


@contextmanager
def _without_numbers() -> Iterator[None]:
    """Raise NotLifted after the block if code inside asked for numbers of a tracer, even if it
    caught the error, or wrote a tracer as text, which may have the numbers where there are any."""
    asked: list[str] = []

    def noting(made: Any) -> Any:
        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(type(self).__name__)
            return made(self, *args, **kwargs)

        return noted

    with ExitStack() as stack:
        for error in _NEEDING:
            stack.enter_context(temporarily(error, __init__=noting(error.__init__)))
        tracer = jax.core.Tracer
        for name in ("__repr__", "__format__"):
            method = noting(getattr(tracer, name))
            stack.enter_context(temporarily(tracer, **{name: method}))
        yield
    if asked:
        raise NotLifted(f"{NEEDS_NUMBERS}: {asked[0]}")


def _refuse_stated_derivatives(subject: LayerSubject) -> None:
    """Raise NotLifted if a derivative is not JAX's own, or a function that the user compiles has
    kernels of its own."""
    seen: list[Any] = []

    def noting(kind: Any) -> Any:
        call = kind.__call__

        def noted(function: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(function)
            return call(function, *args, **kwargs)

        return noted

    with subject.ready({}), ExitStack() as stack:
        for kind in _STATED:
            stack.enter_context(temporarily(kind, __call__=noting(kind)))
        inputs = subject.inputs({})
        program = jax.make_jaxpr(subject.call)(inputs)
    for function in seen:
        if not _is_jaxs_object(function):
            raise NotLifted(f"the derivative of `{function.__name__}` is not JAX's own")
    for equation in equations(program):
        name = equation.primitive.name
        if name in _CUTS and not _is_called_by_jax(equation):
            raise NotLifted(f"the layer calls `{name}`")
        if name in _CALLS and not _is_jaxs_code(equation.params["jaxpr"]):
            raise NotLifted("kernels of a compiled layer are not known")


def _is_jaxs_object(function: Any) -> bool:
    """Whether JAX itself has this custom function under a name."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    inside = str(getattr(module, "__file__", None) or "").startswith(JAX_FOLDER)
    return inside and any(one is function for one in vars(module).values())


def _is_called_by_jax(equation: Any) -> bool:
    """Whether a function of JAX called the function of this name, and not the user."""
    codes, _ = equation.source_info.traceback.raw_frames()
    names = [code.co_name for code in codes]
    last = len(names) - names[::-1].index(equation.primitive.name)
    for code in codes[last:]:
        if not code.co_filename.endswith(_WRAPPERS):
            return bool(code.co_filename.startswith(JAX_FOLDER))
    return False


def _is_jaxs_code(closed: Any) -> bool:
    """Whether a compiled function was written in JAX."""
    _, _, place = str(closed.jaxpr.debug_info.func_src_info).partition(" at ")
    return place.startswith(JAX_FOLDER)


def _is_floating(dtype: Any) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.numpy.floating))


def _numbers(array: Any) -> Array:
    return np.asarray(array).astype(np.float64)
