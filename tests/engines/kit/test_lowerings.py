"""Tables of lowerings are read without a framework, and bound to one."""

from __future__ import annotations

import types

import pytest

from gradcheck_cli.engines.jax import ops as jax_ops
from gradcheck_cli.engines.kit.lowerings import (
    Composed,
    Limited,
    Loss,
    Missing,
    Renamed,
    bound,
    had,
    reasons,
)
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


def test_keywords_go_under_the_names_of_the_framework_and_a_part_is_taken() -> None:
    def sort(x: list[int], dim: int, stable: bool) -> types.SimpleNamespace:
        return types.SimpleNamespace(values=(sorted(x), dim, stable))

    lowering = Renamed("sort", {"axis": "dim"}, also={"stable": True}, part="values")
    call = bound({"sort": lowering}, types.SimpleNamespace(sort=sort))["sort"]
    assert not isinstance(call, Missing)
    assert call([2, 1], axis=0) == ([1, 2], 0, True)


def test_a_composition_calls_the_rows_of_its_own_table() -> None:
    framework = types.SimpleNamespace(special=types.SimpleNamespace(up=lambda x: x + 1))
    table = {"twice": Composed(lambda xp, x, by: xp.up(xp.up(x)) * by), "up": "special.up"}
    call = bound(table, framework)["twice"]
    assert not isinstance(call, Missing)
    assert call(1, by=10) == 30


def test_a_loss_takes_the_mean_or_the_sum_of_its_table_or_leaves_the_terms() -> None:
    framework = types.SimpleNamespace(square=lambda x: [n * n for n in x], total=sum)
    table = {
        "loss": Loss("square"),
        "sum": "total",
        "mean": lambda framework, x: framework.total(x) / len(x),
    }
    call = bound(table, framework)["loss"]
    assert not isinstance(call, Missing)
    found = {reduction: call([1, 3], reduction=reduction) for reduction in ("none", "sum", "mean")}
    assert found == {"none": [1, 9], "sum": 10, "mean": 5.0}
