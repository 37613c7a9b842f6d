"""A formula in a string, checked as a spec file with it would be."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import numpy as np

from gradcheck_cli import specfile
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run import session
from gradcheck_cli.testing.call_args import CheckRequest
from gradcheck_cli.testing.report import CheckReport, mistakes_screen, with_calls
from gradcheck_cli.testing.values import as_array

_PATH = "formula"  # what reports show in place of a file


def check_formula(request: CheckRequest) -> CheckReport:
    """`api.check` where the layer is a formula. Engines run in processes of their own."""
    if request.by_design:
        raise UsageError("`by_design` is for layers: a formula uses `stop_gradient`")
    if request.kinds:
        raise UsageError("`kinds` are for layers: a formula has derivatives in all directions")
    spec = _spec(_text(request))
    *_, last = session.run([spec], RunOptions(seed=request.seed))
    assert isinstance(last, Finished)
    if last.report.interrupted:
        raise KeyboardInterrupt
    formula = request.layer.strip()
    called = spec.name if "\n" in formula else json.dumps(formula)
    return CheckReport(
        version=last.report.version,
        engines=last.report.engines,
        seed=request.seed,
        duration_s=last.report.duration_s,
        results=tuple(with_calls(result, called, request.seed) for result in last.report.results),
    )


def _spec(text: str) -> Spec:
    """Raises UsageError with everything that is wrong with it, as `gradcheck run` shows it."""
    specs, mistakes = specfile.read(_PATH, text)
    if mistakes:
        raise UsageError(f"invalid formula\n\n{mistakes_screen(mistakes)}")
    return specs[0]


def _text(request: CheckRequest) -> str:
    """The formula first, so that the lines of a report are its own."""
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
    body = textwrap.indent(textwrap.dedent(request.layer).strip("\n"), "  ")
    lines = [f"{key}: {json.dumps(value)}" for key, value in rest.items()]
    return "\n".join(["model: |", body, *lines, ""])


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
    """JSON has no literal for what is not finite or complex; specs have words."""
    if isinstance(value, complex):
        return str(value).strip("()")
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value
