"""Layers of JAX: the operation, the stated rule or the stop that is to blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.custom_derivatives import linear_call
from jax.extend.core import Primitive
from jax.interpreters import ad

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.engines.jax.custom_functions import MOST_CALLS, custom_calls
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.jax.wide import Pure
from tests.checks.making import causes_of, layer_problem, stretch
from tests.every import first


@cache
def engine() -> JaxEngine:
    made = JaxEngine()
    made.load()
    return made


def causes(layer: Any, x: Any, dtype: str, mode: Mode = "reverse") -> set[Cause]:
    """Those of all errors, each of which has one."""
    return causes_of(engine(), "jax", layer, x, dtype, mode)


def masked(total: Any, x: Any) -> tuple[Any, Any]:
    root = jnp.where(x > 0, jnp.sqrt(x), 0.0)
    return total + root, root


def late(t: Any) -> Any:
    return 1 / jnp.exp(t)


def by_hand(x: Any) -> Any:
    e = jnp.exp(x)
    return e / e.sum()


@pytest.mark.parametrize(
    ("layer", "x", "kind", "op", "text"),
    first(
        1,
        [
            (lambda x: jnp.log(1 + jnp.exp(x)), [200.0], "overflow", "exp", "jnp.exp(x)"),
            (by_hand, [100.0, 1.0], "overflow", "exp", "jnp.exp(x)"),
            # inside what is compiled, in every turn of a loop
            (
                jax.jit(lambda x: jax.lax.scan(masked, 0.0, x)[0]),
                [1.0, -1.0],
                "masked branch",
                "sqrt",
                "jnp.sqrt(x)",
            ),
            (
                lambda x: jax.lax.cond(x > 0, late, jnp.sin, x),
                100.0,
                "overflow",
                "exp",
                "jnp.exp(t)",
            ),
        ],
    ),
)
def test_the_operation_on_the_users_line(
    layer: Callable[..., Any], x: Any, kind: str, op: str, text: str
) -> None:
    for cause in causes(layer, x, "float32"):
        assert (cause.phase, cause.kind, cause.op, stretch(cause)) == ("forward", kind, op, text)
        assert cause.proven


def test_the_worst_element_tells_the_story() -> None:
    """exp(-100) is zero in float32, which harms nobody; exp(100) is infinite."""
    for cause in causes(lambda x: jnp.log(jnp.exp(x).sum()), [-100.0, 100.0], "float32"):
        assert "exp(100) = inf" in cause.story


@jax.custom_vjp
def recip(x: Any) -> Any:
    return 1 / jnp.exp(x)


def recip_bwd(e: Any, y_bar: Any) -> Any:
    return (-y_bar * e / (e * e),)


recip.defvjp(lambda x: (recip(x), jnp.exp(x)), recip_bwd)


@jax.custom_jvp
def inverse(x: Any) -> Any:
    return 1 / jnp.exp(x)


@inverse.defjvp
def push(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    e = jnp.exp(x)
    return 1 / e, -e / (e * e) * x_dot


@pytest.mark.parametrize("function", first(1, [recip, inverse]))
def test_a_stated_rule_loses_what_it_need_not(function: Any) -> None:
    (cause,) = causes(lambda x: function(x) * 2, [60.0], "float32")
    assert (cause.phase, cause.kind, stretch(cause)) == ("backward", "overflow", "e * e")
    assert cause.engine_op == "mul"


@jax.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


@jax.custom_vjp
def square(x: Any, parts: Any) -> Any:
    return x * x * parts["w"]


@jax.custom_jvp
def cube(x: Any) -> Any:
    return x**3


@cube.defjvp
def push_cube(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return cube(x), 2 * x**2 * x_dot  # and not 3


sine.defvjp(lambda x: (sine(x), x), lambda x, y_bar: (y_bar * jnp.cos(x),))
square.defvjp(  # half of it
    lambda x, parts: (square(x, parts), (x, parts["w"])),
    lambda kept, y_bar: (y_bar * kept[0] * kept[1], {"w": y_bar * kept[0] ** 2}),
)


@jax.custom_gradient
def halved(x: Any) -> Any:
    return x**2, lambda y_bar: y_bar * x


def test_the_function_under_a_custom_gradient() -> None:
    (cause,) = causes(lambda x: halved(jnp.sin(x)), [0.5, 1.0], "float64")
    assert (cause.op, cause.kind, stretch(cause)) == ("halved", "wrong rule", "y_bar * x")


@jax.custom_jvp
def product(x: Any, y: Any) -> Any:
    return x * y


product.defjvps(lambda x_dot, _, x, y: x_dot * y, None)


def test_a_summand_of_a_jvp_that_is_left_out() -> None:
    for cause in causes(lambda x: product(jnp.ones(2), jnp.sin(x)), [0.5, 1.0], "float64"):
        assert cause.detail.startswith("your jvp returns nothing for `y`")


@pytest.mark.parametrize(
    ("layer", "op", "text"),
    first(
        1,
        [
            (lambda x: square(sine(x), {"w": x}), "square", "y_bar * kept[0] * kept[1]"),
            (jax.jit(jax.vmap(lambda x: cube(sine(x)))), "cube", "2 * x**2 * x_dot"),
        ],
    ),
)
def test_the_wrong_one_of_several_stated_rules(layer: Any, op: str, text: str) -> None:
    (cause,) = causes(layer, [0.5, 1.0], "float64")
    assert (cause.op, cause.kind, stretch(cause)) == (op, "wrong rule", text)
    rule = "jvp" if op == "cube" else "backward"  # that is what the user wrote, in either mode
    assert cause.story.startswith(f"the {rule} of `{op}`")


def test_a_long_loop_is_not_gone_through_to_its_end() -> None:
    def layer(x: Any) -> list[Any]:
        turns.clear()
        for turn in range(200):
            x = sine(x)
            turns.append(turn)
        return [x]

    turns: list[int] = []
    calls = custom_calls(Pure(layer, {"x": jnp.array(0.5)}, ["x"]))
    assert len(calls) == len(turns) == MOST_CALLS
    assert calls[0].reaches == {"x"}


def test_where_the_gradient_stops() -> None:
    def scaled(x: Any) -> Any:
        return x / jax.lax.stop_gradient(jnp.linalg.norm(x))

    for cause in causes(jax.jit(scaled), [1.0, 2.0], "float64"):
        assert cause.kind == "detached path"
        assert stretch(cause) == "jax.lax.stop_gradient(jnp.linalg.norm(x))"


@jax.custom_vjp
def solved(x: Any) -> Any:
    """y = x cos(y) / 2 by iteration."""

    def turn(state: Any) -> Any:
        y = 0.5 * jnp.cos(state[0]) * x
        return y, jnp.max(jnp.abs(y - state[0]))

    start = jnp.zeros_like(x), jnp.ones((), x.dtype)
    return jax.lax.while_loop(lambda state: state[1] > 3e-8, turn, start)[0]


def solved_backward(kept: Any, g: Any) -> Any:
    x, y = kept
    return (g * 0.5 * jnp.cos(y) / (1 + 0.5 * x * jnp.sin(y)),)


solved.defvjp(lambda x: (solved(x), (x, solved(x))), solved_backward)


def test_a_solution_by_iteration_is_an_approximation() -> None:
    problem = layer_problem(solved, {"x": [0.3, 0.9]}, modes=("reverse",), engine="jax")
    answer = examine(engine(), problem)
    (found,) = answer.findings
    assert (found.code, found.severity) == ("GC305", "warning")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.op) == ("iterative solution", "solved")


def test_a_stop_that_cancels_is_no_cause_of_lost_digits() -> None:
    """The largest logit is stopped in a log-softmax; without it the sums round in another order."""
    x = {"x": [0.0, 200.0]}
    problem = layer_problem(jax.nn.log_softmax, x, dtype="float64", modes=("forward",))
    implementation = replace(problem.implementation, engine="jax")
    answer = examine(engine(), replace(problem, implementation=implementation))
    assert [finding.code for finding in answer.findings if finding.severity == "error"] == ["GC302"]
    assert all(f.cause is None or f.cause.kind != "detached path" for f in answer.findings)


def test_a_backward_of_another_dtype_is_traced_as_any_other() -> None:
    """`convert_element_type` is no row of the table, so nothing is known of it as one."""

    @jax.custom_vjp
    def narrowed(x: Any) -> Any:
        return jnp.sin(x)

    narrowed.defvjp(
        lambda x: (jnp.sin(x), x), lambda x, y_bar: ((y_bar * jnp.cos(x)).astype(jnp.float16),)
    )
    problem = layer_problem(narrowed, {"x": [0.3, -1.2]}, dtype="float64", modes=("reverse",))
    implementation = replace(problem.implementation, engine="jax")
    answer = examine(engine(), replace(problem, implementation=implementation))
    assert {finding.code for finding in answer.findings} == {"GC103", "GC301"}
    assert not [note for note in answer.notes if "not traced" in note]


@jax.custom_jvp
def soft(x: Any) -> Any:
    return jnp.tanh(x)


@soft.defjvp
def push_soft(primals: Any, tangents: Any) -> Any:
    return soft(primals[0]), (1 - soft(primals[0])) * tangents[0]  # without the square


@pytest.mark.parametrize("size", first(1, [2, 80]))  # the whole Jacobian, and random products of it
def test_a_stated_jvp_in_a_loop_without_a_reverse_mode(size: int) -> None:
    def settled(x: Any) -> Any:
        return jax.lax.while_loop(lambda y: jnp.sum(y) > 0.1, lambda y: 0.5 * soft(y), x)

    found = causes(settled, jnp.linspace(0.1, 1.5, size), "float64", "forward")
    assert {stretch(cause) for cause in found} == {"(1 - soft(primals[0])) * tangents[0]"}


def both_large(x: Any) -> Any:
    return jnp.logaddexp(x, x)


@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
@pytest.mark.parametrize(("layer", "x"), [(both_large, -1.5e20), (both_large, 3e30)])
def test_what_every_precision_absorbs_is_rounding(layer: Any, x: float, dtype: str) -> None:
    problem = layer_problem(layer, {"x": x}, dtype=dtype, modes=("reverse", "forward"))
    implementation = replace(problem.implementation, engine="jax")
    found = examine(engine(), replace(problem, implementation=implementation)).findings
    assert [(f.code, f.mode) for f in found] == [("GC301", "reverse"), ("GC301", "forward")]
    for finding in found:
        assert finding.severity == "error"
        assert finding.cause is not None
        assert finding.cause.text == "jnp.logaddexp(x, x)"


@jax.custom_vjp
def twice_stated(x: Any) -> Any:
    return jnp.log(1 + jnp.exp(x)) - x


twice_stated.defvjp(lambda x: (twice_stated(x), x), lambda x, g: (-2 * g / (1 + jnp.exp(x)),))


def test_a_wrong_rule_whose_numbers_are_large_is_no_rounding() -> None:
    problem = layer_problem(twice_stated, {"x": 1.5}, dtype="float64", modes=("reverse",))
    implementation = replace(problem.implementation, engine="jax")
    (found,) = examine(engine(), replace(problem, implementation=implementation)).findings
    assert found.code == "GC101"


_fixed = Primitive("scaled_in_its_own_dtype")
"""A primitive of a package that has its dtype in a parameter of its own."""
_fixed.def_impl(lambda x, y, structure: _checked(x * y, structure))
_fixed.def_abstract_eval(lambda x, y, structure: _checked(x, structure))


def _checked(x: Any, structure: str) -> Any:
    if x.dtype.name != structure:
        raise ValueError("the result does not match its structure")
    return x


def _fixed_jvp(primals: Any, tangents: Any, structure: str) -> Any:
    (x, y), (x_dot, y_dot) = primals, map(ad.instantiate_zeros, tangents)
    return _fixed.bind(x, y, structure=structure), x_dot * y + x * y_dot


ad.primitive_jvps[_fixed] = _fixed_jvp


def beside_a_package(x: Any) -> Any:
    doubled = _fixed.bind(x, 2 * x, structure=x.dtype.name)
    return 1 / jnp.exp(doubled)


def test_a_primitive_that_knows_its_dtype_does_not_hide_what_is_beside_it() -> None:
    (cause,) = causes(beside_a_package, 6.7, "float32")
    assert "exp" in cause.text


def _root(tangent_solve: Any, steps: int = 40) -> Any:
    def layer(a: Any) -> Any:
        def f(z: Any) -> Any:
            return z**3 + z - a

        def solve(f: Any, z: Any) -> Any:
            return jax.lax.fori_loop(0, steps, lambda _, z: z - f(z) / (3 * z * z + 1), z)

        return jax.lax.custom_root(f, jnp.zeros_like(a), solve, tangent_solve)

    return layer


def tangent_solved(g: Any, y: Any) -> Any:
    return y / g(jnp.ones_like(y))


def tangent_multiplied(g: Any, y: Any) -> Any:
    return y * g(jnp.ones_like(y))


def _solution(wrong: str = "", **how: Any) -> Any:
    def layer(b: Any) -> Any:
        a = jnp.array([[3.0, 1.0], [1.0 if wrong != "symmetric" else -1.0, 2.0]], b.dtype)

        def solve(matvec: Any, b: Any) -> Any:
            return jnp.linalg.solve(a, b) * (1.5 if wrong == "solve" else 1)

        def transpose_solve(vecmat: Any, c: Any) -> Any:
            return jnp.linalg.solve(a.T, c) * (1.5 if wrong == "transpose_solve" else 1)

        given = how or {"transpose_solve": transpose_solve}
        return jax.lax.custom_linear_solve(lambda x: a @ x, b, solve, **given)

    return layer


def _scaled(transpose: Any) -> Any:
    def layer(x: Any) -> Any:
        scale = jnp.array([[1.0, 2.0], [0.5, -1.0]], x.dtype)
        return linear_call(lambda a, x: jnp.cos(a) @ x, transpose, scale, jnp.sin(x))

    return layer


def transposed(a: Any, y_bar: Any) -> Any:
    return jnp.cos(a).T @ y_bar


def not_transposed(a: Any, y_bar: Any) -> Any:
    return jnp.cos(a) @ y_bar


@pytest.mark.parametrize(
    ("layer", "says", "text"),
    [
        (
            _scaled(not_transposed),
            "`fun_transpose` is not the transpose of `fun`",
            "jnp.cos(a) @ y_bar",
        ),
        (
            _root(tangent_multiplied),
            "`tangent_solve` does not solve its equation",
            "y * g(jnp.ones_like(y))",
        ),
        (_root(tangent_solved, steps=2), "`solve` does not end at a root", "jax.lax.fori_loop("),
        (
            _solution("symmetric", symmetric=True),
            "`symmetric=True`, but `matvec` is not symmetric",
            "jax.lax.custom_linear_solve(",
        ),
        (
            _solution("transpose_solve"),
            "`transpose_solve` does not solve the transposed equation",
            "jnp.linalg.solve(a.T, c)",
        ),
        (_solution("solve"), "`solve` does not solve its equation", "jnp.linalg.solve(a, b)"),
    ],
)
def test_a_function_that_breaks_what_an_implicit_derivative_relies_on(
    layer: Any, says: str, text: str
) -> None:
    found = causes(layer, [0.7, 2.5], "float64")
    for cause in found:
        assert says in cause.detail
        assert text in cause.text
    assert found


@pytest.mark.parametrize(
    "layer",
    [
        _root(tangent_solved),
        _solution(),
        _solution(symmetric=True),
        jax.vmap(_solution()),
        _scaled(transposed),
    ],
)
def test_implicit_derivatives_whose_promises_are_kept(layer: Any) -> None:
    x = jnp.array([[0.7, 2.5], [1.1, -0.4]])
    assert custom_calls(Pure(lambda x: [layer(x)], {"x": x}, ("x",))) == []


def test_the_argument_that_depends_on_the_input_is_named() -> None:
    @jax.custom_vjp
    def scaled(p: Any) -> Any:
        return p["first"] * p["second"]

    scaled.defvjp(
        lambda p: (p["first"] * p["second"], p),
        lambda p, g: ({"first": 2 * g * p["second"], "second": 3 * g * p["first"]},),
    )

    def layer(x: Any, w: Any) -> Any:
        return scaled({"first": jnp.sin(x), "second": jnp.exp(w)})

    problem = layer_problem(
        layer,
        {"x": [0.3, 1.2], "w": [0.5, -0.7]},
        dtype="float64",
        modes=("reverse",),
        engine="jax",
    )
    found = {f.input: f.cause for f in examine(engine(), problem).findings}
    assert {name: cause.text for name, cause in found.items() if cause} == {
        "x": '2 * g * p["second"]',
        "w": '3 * g * p["first"]',
    }


@jax.custom_vjp
def third_power(x: Any) -> Any:
    return x**3


third_power.defvjp(lambda x: (x**3, x), lambda x, g: (g * 2 * x * x,))


def _checkpointed(x: Any) -> Any:
    return jax.checkpoint(lambda x: jnp.sin(third_power(x)))(x)


@jax.jit
def _scanned_in_checkpoint(x: Any) -> Any:
    def turn(h: Any, row: Any) -> Any:
        h = jnp.tanh(third_power(row) + h)
        return h, h

    return jax.checkpoint(lambda x: jax.lax.scan(turn, 0.0, x)[1])(x)


def _checkpoint_in_scan(x: Any) -> Any:
    @jax.checkpoint
    def turn(h: Any, row: Any) -> Any:
        return jnp.tanh(third_power(h) + row), h

    return jax.lax.scan(turn, 0.0, x)[0]  # the first turn is at 0, where the rule is right


@pytest.mark.parametrize(
    "layer", first(1, [_checkpoint_in_scan, _checkpointed, _scanned_in_checkpoint])
)
def test_a_rule_inside_of_what_is_rematerialised_is_examined(layer: Any) -> None:
    (cause,) = {(one.kind, one.op, one.text) for one in causes(layer, [0.7, 1.2, -0.4], "float64")}
    assert cause == ("wrong rule", "third_power", "g * 2 * x * x")
