"""Drop-in replacements of `torch.autograd.gradcheck` and `torch.autograd.gradgradcheck`.

    from gradcheck_cli.torch import gradcheck, gradgradcheck

Their signatures are those of PyTorch 2.13. docs/guides/migration.md says what becomes of each
argument. Importing this module does not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.errors import NoGradientError
from gradcheck_cli.testing.api import check
from gradcheck_cli.testing.drop_in import NO_STEP, warn_once
from gradcheck_cli.testing.report import CheckReport, GradientError
from gradcheck_cli.testing.values import dtype_word

_EPS, _ATOL, _RTOL = 1e-6, 1e-5, 1e-3  # PyTorch's own: where they stand, nobody chose them
_NO_VMAP = "passes are not batched with vmap, and this is not checked"
_WHY = {
    "eps": NO_STEP,
    "fast_mode": "the size of the Jacobian decides whether it is computed whole",
    "masked": "inputs and gradients are dense",
    "check_batched_grad": _NO_VMAP,
    "check_batched_forward_grad": _NO_VMAP,
    "grad_outputs": "the cotangents of second derivatives are drawn at random",
}


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = _EPS,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Checks the gradients of `func(*inputs)` with respect to the tensors that have
    `requires_grad`, in their dtypes. Returns True. If a gradient is wrong, raises an error that is
    both `torch.autograd.gradcheck.GradcheckError` and `gradcheck_cli.GradientError`, with the whole
    report, or returns False if not `raise_exception`.

    The default tolerances select gradcheck's own rule, which needs no number; other tolerances are
    used as given. Raises ValueError if no input has `requires_grad`, and UsageError for inputs that
    cannot be checked.
    """
    __tracebackhide__ = True
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("one of check_forward_ad and check_backward_ad must be True")
    given = {
        "eps": eps != _EPS,
        "fast_mode": fast_mode,
        "masked": masked,
        "check_batched_grad": check_batched_grad,
        "check_batched_forward_grad": check_batched_forward_grad,
    }
    warn_once(given, _WHY)
    return _passed(
        func,
        inputs,
        raise_exception,
        modes=["reverse"] * check_backward_ad + ["forward"] * check_forward_ad,
        tolerance=_tolerance(atol, rtol),
        allow=_allowed(nondet_tol, check_undefined_grad),
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = _EPS,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Checks first and second derivatives of `func(*inputs)`, as `gradcheck` does first ones."""
    __tracebackhide__ = True
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("one of check_fwd_over_rev and check_rev_over_rev must be True")
    given = {
        "eps": eps != _EPS,
        "fast_mode": fast_mode,
        "masked": masked,
        "check_batched_grad": check_batched_grad,
        "grad_outputs": grad_outputs is not None,
    }
    warn_once(given, _WHY)
    return _passed(
        func,
        inputs,
        raise_exception,
        order=2,
        modes=["reverse"] + ["forward"] * check_fwd_over_rev,
        tolerance=_tolerance(atol, rtol),
        allow=_allowed(nondet_tol, check_undefined_grad),
    )


def _tolerance(atol: float, rtol: float) -> dict[str, float] | None:
    """What the caller chose; None where nobody did."""
    return None if (atol, rtol) == (_ATOL, _RTOL) else {"atol": atol, "rtol": rtol}


def _allowed(nondet_tol: float, check_undefined_grad: bool) -> list[dict[str, str]]:
    found = []
    if nondet_tol > 0:
        found.append({"code": Codes.NONDETERMINISTIC, "reason": f"nondet_tol={nondet_tol}"})
    if not check_undefined_grad:
        found.append({"code": Codes.REQUEST_DEPENDENT, "reason": "check_undefined_grad=False"})
    return found


def _passed(func: Any, inputs: Any, raise_exception: bool, **options: Any) -> bool:
    __tracebackhide__ = True
    values = inputs if isinstance(inputs, list | tuple) else (inputs,)
    dtypes = {dtype_word(one.dtype) for one in values if getattr(one, "requires_grad", False)}
    if not dtypes:
        raise NoGradientError("no input has requires_grad=True: there is no gradient to check")
    report = check(func, *values, dtypes=dtypes, engines="torch", **options)
    if not report.passed and raise_exception:
        raise _failure(report)
    return report.passed


def _failure(report: CheckReport) -> GradientError:
    return _failure_type()(report)


@cache
def _failure_type() -> type[GradientError]:
    from torch.autograd.gradcheck import GradcheckError

    class GradientCheckError(GradientError, GradcheckError):  # type: ignore[misc]
        """What `pytest.raises` of either project expects."""

        def __reduce__(self) -> tuple[Callable[..., GradientError], tuple[CheckReport]]:
            return _failure, (self.report,)

    return GradientCheckError


def __getattr__(name: str) -> Any:
    """PyTorch's own GradcheckError, for tests that import it from where `gradcheck` is."""
    if name == "GradcheckError":
        from torch.autograd.gradcheck import GradcheckError

        return GradcheckError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
