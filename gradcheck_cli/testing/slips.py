"""Calls of `check` in the style of other projects: accepted if they have only one meaning,
otherwise refused with a hint."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.synonyms import synonym
from gradcheck_cli.testing.values import (
    dtype_word,
    holds_array,
    parameter_names,
    required_inputs,
    takes_by_name,
)

_STEPS = "differences choose their own steps, and each has its error bar"
_TOLERANCE = 'the default needs none; tolerance={"rtol": 1e-3, "atol": 1e-5} sets one'
_DROP_IN = "gradcheck_cli.torch.gradcheck takes torch's arguments"
_ELSEWHERE = {  # options of torch.autograd.gradcheck, jax.test_util and tf.test
    "eps": _STEPS,
    "delta": _STEPS,
    "atol": _TOLERANCE,
    "rtol": _TOLERANCE,
    "raise_exception": "assert_gradients raises, check gives a report",
    "check_forward_ad": 'modes=["reverse", "forward"]',
    "check_backward_ad": 'modes=["forward"]',
    "nondet_tol": _DROP_IN,
    "fast_mode": _DROP_IN,
    "masked": _DROP_IN,
    "grad_outputs": _DROP_IN,
    "check_undefined_grad": _DROP_IN,
    "check_grad_dtypes": _DROP_IN,
    "check_batched_grad": _DROP_IN,
    "check_batched_forward_grad": _DROP_IN,
}


def chosen(value: Any, choices: Collection[str]) -> list[str] | None:
    """One or several names as gradcheck spells them: "float32", torch.float32, ["fp32", "bf16"].
    Names that no project uses for a choice are returned unchanged."""
    if value is None:
        return None
    several = value if isinstance(value, list | tuple | set | frozenset) else [value]
    words = (one if isinstance(one, str) else dtype_word(one) for one in several)
    return [word if word in choices else synonym(word, choices) or word for word in words]


def one_by_one(layer: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs of a layer that takes several inputs and received all of them as one tuple."""
    if len(inputs) != 1 or not _is_tuple_of_inputs(inputs[0]) or required_inputs(layer) < 2:
        return inputs
    return tuple(inputs[0]) if len(inputs[0]) <= len(parameter_names(layer)) else inputs


def was_a_tuple_of_inputs(inputs: Sequence[Any]) -> bool:
    """Whether the only input is a tuple that may have been meant as all inputs."""
    return len(inputs) == 1 and _is_tuple_of_inputs(inputs[0])


def _is_tuple_of_inputs(value: Any) -> bool:
    return isinstance(value, tuple | list) and any(map(holds_array, value))


def refuse_strange_options(check: Callable[..., Any], layer: Any, named: Mapping[str, Any]) -> None:
    """Raises UsageError for options such as `dtype=` and `eps=`, which are not inputs of the layer,
    and says what to write instead."""
    strange = [name for name in named if not takes_by_name(layer, name)]
    if not strange:
        return
    options = [p for p in inspect.signature(check).parameters if p not in ("layer", "named")]
    for name in strange:
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.8)
        if near:
            raise UsageError(f"there is no option `{name}`", f"did you mean `{near[0]}`?")
        if name in _ELSEWHERE:
            raise UsageError(f"there is no option `{name}`", _ELSEWHERE[name])
