"""Tables of lowerings are read without a framework, and bound to one."""

from __future__ import annotations

import types

import pytest

from gradcheck_cli.engines.jax import ops as jax_ops
from gradcheck_cli.engines.kit.lowerings import Limited, Missing, bound, had, reasons
from gradcheck_cli.engines.symbolic import ops as symbolic_ops
from gradcheck_cli.engines.tensorflow import ops as tensorflow_ops
from gradcheck_cli.engines.torch import ops as torch_ops
from reference_engine.op import TABLE


@pytest.mark.parametrize("lowered", [torch_ops, tensorflow_ops, jax_ops, symbolic_ops])
def test_what_is_lowered_is_a_row(lowered: types.ModuleType) -> None:
    assert set(lowered.TABLE) <= TABLE.keys()


def test_a_limited_row_is_had_and_remarked_upon_and_a_missing_one_only_remarked_upon() -> None:
    table = {
        "exp": "exp",
        "lgamma": Limited("lgamma", "nine digits are right"),
        "airy": Missing("there is none"),
    }
    assert had(table) == {"exp", "lgamma"}
    assert reasons(table) == {"lgamma": "nine digits are right", "airy": "there is none"}


def test_a_name_is_looked_up_and_a_function_is_given_the_framework() -> None:
    framework = types.SimpleNamespace(math=types.SimpleNamespace(exp=lambda x: x + 1), two=2)
    table = {
        "exp": "math.exp",
        "twice": lambda framework, x: framework.two * x,
        "lgamma": Limited("math.exp", "nine digits are right"),
        "airy": Missing("there is none"),
    }
    calls = bound(table, framework)
    assert isinstance(calls["airy"], Missing)
    ready = {name: call for name, call in calls.items() if not isinstance(call, Missing)}
    assert {name: call(3) for name, call in ready.items()} == {"exp": 4, "twice": 6, "lgamma": 4}
