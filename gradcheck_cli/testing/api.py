"""`check` and `assert_gradients`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines import registry
from gradcheck_cli.run import session
from gradcheck_cli.testing.call_args import CheckRequest
from gradcheck_cli.testing.layers import check_layer
from gradcheck_cli.testing.report import CheckReport, GradientError, mistakes_screen, with_calls
from gradcheck_cli.testing.slips import chosen, one_by_one, refuse_strange_options
from gradcheck_cli.testing.values import as_array

__all__ = ["CheckReport", "GradientError", "UsageError", "assert_gradients", "check"]

_PATH = "formula"  # what reports show in place of a file
_MARGIN = 2  # by which YAML has the lines of a formula indented


def check(
    layer: Any,
    /,
    *inputs: Any,
    backward: Callable[..., Any] | None = None,
    model: str | None = None,
    engines: str | Sequence[str] | None = None,
    dtypes: Any = None,
    modes: str | Sequence[str] | None = None,
    order: int = 1,
    wrt: Sequence[str] | None = None,
    domain: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
    power: float | None = None,
    tolerance: Mapping[str, Any] | None = None,
    surrogate: Mapping[str, str] | None = None,
    by_design: Sequence[Mapping[str, str]] = (),
    kinds: Mapping[str, str] | None = None,
    allow: Sequence[Mapping[str, str]] = (),
    device: str | None = None,
    matmul_precision: str | None = None,
    seed: int = 0,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    engine: str | Sequence[str] | None = None,
    **named: Any,
) -> CheckReport:
    """Checks the gradients of a layer, or of a formula, entry by entry.

    layer       a function, an `autograd.Function`, an `nn.Module`, a Keras layer, a `tf.function`,
                an object with the NumPy functions `forward` and `backward`, or a formula (text)
    inputs      the arguments of the call, in order; `named` has arguments by name. Arrays of torch,
                TensorFlow, JAX or NumPy of any shape, tuples and dictionaries of them, floats, and
                nested lists of floats are inputs; anything else is passed on unchanged. Floating
                arrays are differentiated or, if torch tensors have `requires_grad`, only those;
                floats are then passed on unchanged, too, unless an option names inputs, and so are
                floats that the layer refuses as arrays. Named tuples come as such.
                A JAX layer also takes any registered tree, and random keys
    backward    the backward of a NumPy function: backward(y_bar, *inputs) returns the gradients
    model       the formula that the layer should equal
    engines     "torch", "tensorflow", "jax", "jax-jit", "numpy"; default: what layer and inputs
                belong to. For a formula one or several, default: all that are installed.
                `engine` is the same
    dtypes      one or several, as names or as a framework's own: "float32", [torch.bfloat16];
                default: float32 and float64, or the half precision that the inputs have
    modes       "reverse", "forward"; default: all modes of the framework
    order       2 also checks second derivatives, 3 third derivatives
    wrt         the inputs whose gradients are checked
    domain      (low, high) where the layer is defined, for every input or by name
    power       the probability of finding an error in a single entry of a large layer
    tolerance   {"ulps": 4}, or {"rtol": 1e-5, "atol": 1e-8}; rarely needed
    surrogate   {"backward": "straight_through", "reason": "...", "input": "x"}: the backward
                differs from the derivative on purpose
    by_design   intended deviations inside the layer: {"function": "ATan", "reason": "..."}, or
                {"detach": "layers.py:41", "reason": "..."}, as in a spec
    allow       known and accepted findings: {"code": "GC602", "reason": "..."}, as in a
                spec
    kinds       kinds that inputs keep in every call of the layer: {"R": "rotation"}, as in a spec
    device      "cpu", "cuda", "cuda:1": the device of PyTorch, TensorFlow or JAX; default: the GPU
                of the torch tensors, otherwise the default device of the framework
    matmul_precision   "full" or "tf32": how the named GPU multiplies float32 matrices
    seed        the seed of random numbers
    name        the name in the report; default: the layer's own name
    args        arguments of the constructor, if the layer is a class; with `kwargs`
    kwargs      further inputs by name, whatever they are called

    Parameters of modules, arrays of a layer that is a tree of JAX's, and tensors that a function
    captured are inputs too. The layer runs in this process, and its state is restored afterwards:
    parameters, gradients, buffers, random numbers, training mode. Check a layer that may crash or
    hang with a spec: `gradcheck run`.

    The report has `passed` and `findings`, and as text it is the output of `gradcheck run`. Raises
    UsageError if the call itself is invalid; an exception in the layer is a finding.
    """
    __tracebackhide__ = True
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"`seed` is {seed!r}, not a whole number that is at least 0")
    settings = {
        "dtypes": chosen(dtypes, FORMATS),
        "modes": chosen(modes, FIRST_ORDER),
        "order": order,
        "wrt": wrt,
        "power": power,
        "tolerance": tolerance,
        "allow": allow or None,
        "device": device,
        "matmul_precision": matmul_precision,
    }
    request = CheckRequest(
        layer=layer,
        inputs=inputs if isinstance(layer, str) else one_by_one(layer, inputs),
        named=named,
        kwargs=kwargs or {},
        args=args,
        settings={key: value for key, value in settings.items() if value is not None},
        backward=backward,
        model=model,
        surrogate=surrogate,
        by_design=by_design,
        kinds=kinds or {},
        engines=chosen(engine if engines is None else engines, registry.engines()) or (),
        domain=domain,
        seed=seed,
        name=name,
    )
    try:
        if isinstance(layer, str):
            return _check_formula(request)
        refuse_strange_options(check, layer, named)
        return check_layer(request)
    except UsageError as error:
        raise error.with_traceback(None) from None  # the mistake is in the call


def assert_gradients(layer: Any, /, *inputs: Any, fail_on: str = "error", **options: Any) -> None:
    """Raises GradientError, an AssertionError whose message is the whole report, if `check` with
    the same arguments does not pass.

    `fail_on` is the lowest severity that counts: "error" or "warning". Raises UsageError if the
    call itself is invalid.
    """
    __tracebackhide__ = True
    if fail_on not in ("error", "warning"):
        raise UsageError(f"`fail_on` is {fail_on!r}", '"error" or "warning"')
    report = check(layer, *inputs, **options)
    if report.fails_on(fail_on):
        raise GradientError(report)


def _check_formula(request: CheckRequest) -> CheckReport:
    """`api.check` for a formula. Engines run in processes of their own."""
    if request.by_design:
        raise UsageError("`by_design` is for layers: a formula uses `stop_gradient`")
    if request.kinds:
        raise UsageError("`kinds` are for layers: a formula has derivatives in all directions")
    spec = _spec(*_text(request))
    *_, last = session.run([spec], RunOptions(seed=request.seed))
    assert isinstance(last, Finished)
    if last.report.interrupted:
        raise KeyboardInterrupt
    formula = request.layer.strip()
    called = None if "\n" in formula else json.dumps(formula)
    return CheckReport(
        version=last.report.version,
        engines=last.report.engines,
        seed=request.seed,
        duration_s=last.report.duration_s,
        results=tuple(with_calls(result, called, request.seed) for result in last.report.results),
    )


def _spec(formula: str, settings: str) -> Spec:
    """The spec of a formula with settings. Reports show only the lines of the formula. Raises
    UsageError with all mistakes in both, as `gradcheck run` shows them."""
    specs, mistakes = specfile.read(_PATH, formula + settings, first=0, margin=_MARGIN)
    if mistakes:
        raise UsageError(f"invalid formula\n\n{mistakes_screen(mistakes)}")
    return replace(specs[0], source=replace(specs[0].source, text=formula))


def _text(request: CheckRequest) -> tuple[str, str]:
    """The formula as YAML from line 1 on, so that reports show its own line numbers; and the
    settings that follow it."""
    for key in ("backward", "model", "surrogate", "args"):
        if getattr(request, key):
            raise UsageError(f"`{key}` is for layers, not for a formula")
    if request.inputs:
        raise UsageError("a formula takes its inputs by name", 'check("1 / exp(x)", x=100.0)')
    values = {**request.kwargs, **request.named}
    asking = [key for key, value in values.items() if getattr(value, "requires_grad", False)]
    rest: dict[str, Any] = {
        "name": request.name or "formula",
        "inputs": {key: _input(key, value, request.bounds(key)) for key, value in values.items()},
        **({"wrt": asking} if asking else {}),
        **request.settings,
    }
    if request.engines:
        rest["engines"] = list(request.engines)
    body = textwrap.indent(textwrap.dedent(request.layer).strip("\n"), " " * _MARGIN)
    lines = [f"{key}: {json.dumps(value)}" for key, value in rest.items()]
    return f"model: |\n{body}\n", "\n".join([*lines, ""])


def _input(name: str, value: Any, bounds: tuple[float, float] | None) -> dict[str, Any]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # as in a spec: a plain number is floating
    array = np.asarray(value) if isinstance(value, bool) else as_array(name, value)
    if array is None:
        raise UsageError(
            f"`{name}` is {type(value).__name__}, which is neither a number nor an array"
        )
    form: dict[str, Any] = {"value": _nested(array)}
    if array.dtype.kind in "bi":
        form["dtype"] = "bool" if array.dtype.kind == "b" else "int64"
    if bounds is not None:
        form["domain"] = [_word(float(bound)) for bound in bounds]
    return form


def _nested(array: Array) -> Any:
    if array.ndim:
        return [_nested(part) for part in array]
    return _word(array.item())


def _word(value: Any) -> Any:
    """A number that is complex or not finite as a word of a spec, because JSON has no literal for
    it."""
    if isinstance(value, complex):
        return str(value).strip("()")
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value
