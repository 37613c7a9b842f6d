"""A drop-in replacement of `jax.test_util.check_grads`.

    from gradcheck_cli.jax import check_grads

Its signature is that of JAX 0.10. docs/guides/migration.md says what becomes of each argument.
Importing this module does not import JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gradcheck_cli.domain.dtypes import parts_of
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.testing.api import assert_gradients
from gradcheck_cli.testing.drop_in import NO_STEP, warn_once
from gradcheck_cli.testing.values import dtype_word

_HIGHEST = 3
_WHY = {
    "eps": NO_STEP,
    "lin": "jax.linearize computes what forward mode does, which is checked",
    "order": f"derivatives are checked up to order {_HIGHEST}",
}
_JAX_TOLERANCES = {"bfloat16": 1e-1, "float16": 1e-2, "float32": 2e-3, "float64": 1e-5}
"""What check_grads takes where a tolerance is not given (jax/_src/public_test_util.py)."""


def check_grads(
    f: Callable[..., Any],
    args: Iterable[Any],
    order: int,
    modes: Iterable[str] = ("fwd", "rev"),
    atol: float | Mapping[Any, float] | None = None,
    rtol: float | Mapping[Any, float] | None = None,
    eps: float | None = None,
) -> None:
    """Checks the derivatives of `f(*args)` with respect to all floating-point and complex arrays in
    `args`, in their dtypes.

    Raises gradcheck_cli.GradientError, an AssertionError, with the whole report if a derivative is
    wrong, and UsageError for arguments that name nothing to check. The default tolerances need no
    number; if only one is given, the other is JAX's default.
    """
    __tracebackhide__ = True
    too_high = isinstance(order, int) and order > _HIGHEST
    warn_once({"eps": eps is not None, "lin": "lin" in modes, "order": too_high}, _WHY)
    args = _arguments(args)
    dtypes = _dtypes(args)
    if not dtypes:
        raise UsageError("no argument is floating or complex: there is no gradient to check")
    assert_gradients(
        f,
        *args,
        engines="jax",
        dtypes=dtypes,
        modes=_modes(modes),
        order=_HIGHEST if too_high else order,
        tolerance=None if atol is None and rtol is None else _tolerance(atol, rtol, dtypes),
    )


def _arguments(args: Any) -> tuple[Any, ...]:
    try:
        return tuple(args)
    except TypeError:
        raise UsageError(
            f"`args` is {args!r}, not a tuple", "check_grads(f, (x,), order)"
        ) from None


def _modes(modes: str | Iterable[str]) -> list[str]:
    """Each once, and "lin" as forward mode. `check` knows the other words, and refuses a typo."""
    words = [modes] if isinstance(modes, str) else modes
    return list(dict.fromkeys("fwd" if word == "lin" else word for word in words))


def _dtypes(args: tuple[Any, ...]) -> list[str]:
    """Those of the floating and complex leaves, as JAX computes with them."""
    import jax

    found = (jax.numpy.result_type(leaf) for leaf in jax.tree.leaves(args))
    floating = (dtype for dtype in found if jax.numpy.issubdtype(dtype, jax.numpy.inexact))
    return list(dict.fromkeys(dtype.name for dtype in floating))


def _tolerance(atol: Any, rtol: Any, dtypes: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {
        key: {parts_of(dtype): _of_dtype(given, dtype) for dtype in dtypes}
        for key, given in (("atol", atol), ("rtol", rtol))
    }


def _of_dtype(given: Any, dtype: str) -> Any:
    """A tolerance of `check_grads` for one dtype: a number, numbers by dtype, or JAX's default."""
    default = _JAX_TOLERANCES[parts_of(dtype)]
    if isinstance(given, Mapping):
        by_dtype = {dtype_word(key): value for key, value in given.items()}
        return by_dtype.get(dtype, default)
    return default if given is None else given
