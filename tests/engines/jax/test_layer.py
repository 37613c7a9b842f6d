"""Layers of JAX: what they give, and how they are differentiated, as stated or by JAX itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli import check
from gradcheck_cli.domain.dtypes import aligned
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.jax.engine import JaxEngine, JaxJitEngine
from gradcheck_cli.engines.jax.layer import JaxSubject
from gradcheck_cli.engines.jax.stages import JIT_DISABLED, RETRACED
from gradcheck_cli.engines.layer.binding import BadCall
from gradcheck_cli.engines.layer.subject import Call, Spare, SubjectRequest
from tests.checks.making import subject_of

LAYERS = """
import dataclasses

import jax
import jax.numpy as jnp

scale = jnp.array([2.0, 0.1])
donated = jax.jit(lambda x: x * x, donate_argnums=0)


def dense(x, w):
    return {"y": jnp.tanh(x @ w) * jnp.ones(2), "size": x.shape[0], "n": jnp.sum(w) * scale}


@jax.custom_vjp
def wrong(x):
    return jnp.sin(x) * x


wrong.defvjp(lambda x: (wrong(x), x), lambda x, y_bar: (y_bar * jnp.cos(x) * x,))


@jax.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def push(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return cube(x), 3 * x**2 * x_dot


@jax.custom_jvp
def squared_tangent(x):
    return jnp.sin(x)


@squared_tangent.defjvp
def push_squared(primals, tangents):
    return jnp.sin(primals[0]), jnp.cos(primals[0]) * tangents[0] ** 2


def doubled_until(x, w):
    y = jax.lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: 2 * y * w, x)
    return {"y": y, "n": jnp.sum(y)}


def branched(x, w):
    return x * w if float(x[0]) > 0.5 else w


@jax.jit
def scaled(x):
    return x * scale


def drawn_by_rejection(x):
    return jax.random.gamma(jax.random.key(0), x * x)


@jax.jit
def noisy(x):
    return x * jax.random.normal(jax.random.key(0), x.shape, x.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Affine:  # as modules of Equinox and of Flax's struct are
    w: jax.Array
    b: jax.Array

    def __call__(self, x):
        return self.w * x + self.b * scale


made = Affine(jnp.array([0.1, 3.0]), jnp.array([1.0, -1.0]))


def drawn():  # makes a layer by keys, as modules of Equinox and of Flax are made
    w = jax.random.normal(jax.random.key(0), (2,))
    params = {"scale": jax.random.uniform(jax.random.key(1), (2,))}
    affine = Affine(w, w)
    return lambda x: affine(x) * params["scale"]


def drawn_tree():
    return Affine(*jax.random.normal(jax.random.key(0), (2, 2)))


@jax.custom_vjp
def forgotten(x, w):
    return x * w


forgotten.defvjp(lambda x, w: (x * w, x), lambda x, y_bar: (None, y_bar * x))


@jax.custom_vjp
def zeros(x, w):
    return x * w


zeros.defvjp(lambda x, w: (x * w, x), lambda x, y_bar: (jnp.zeros_like(x), y_bar * x))


def stopped(x, w):
    return jax.lax.stop_gradient(x) * w


class Power:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        return x**self.n
"""
X = np.array([0.5, -1.25])


@pytest.fixture
def bound(tmp_path: Path) -> Callable[..., JaxSubject]:
    """bound(name, values, dtype=..., args=..., compiled=...): a layer of the file above."""
    (tmp_path / "layers.py").write_text(LAYERS, "utf-8")

    def bind(
        name: str,
        values: dict[str, np.ndarray],
        *,
        dtype: str = "float64",
        args: tuple[Any, ...] = (),
        compiled: bool = False,
        rounding: str | None = None,
        forward: bool = False,
    ) -> JaxSubject:
        span = Span(1, 1, 1, 2)
        target = Implementation("jax", f"layers.py:{name}", str(tmp_path), span, args)
        request = SubjectRequest(target, values, dtype, rounding or dtype, forward=forward)
        return JaxSubject(request, compiled)

    return bind


@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_by_name_and_gradients_of_inputs(
    bound: Callable[..., JaxSubject], compiled: bool
) -> None:
    w = np.array([[0.25, 1.0], [-0.5, 0.75]])
    layer = bound("dense", {"x": X, "w": w}, compiled=compiled)
    assert [(one.name, one.shape) for one in layer.outputs] == [("y['y']", (2,)), ("y['n']", (2,))]
    assert {leaf.name: leaf.differentiable for leaf in layer.leaves} == {
        "x": True,
        "w": True,
        "scale": False,
    }
    ran = layer.run(Call(cotangents=np.eye(4)))
    np.testing.assert_allclose(
        ran.output, [*np.tanh(X @ w), w.sum() * 2, w.sum() * 0.1], rtol=1e-14
    )
    slope = 1 - np.tanh(X @ w) ** 2
    np.testing.assert_allclose(ran.gradients["x"][:2], slope[:, None] * w.T, rtol=1e-13)
    np.testing.assert_allclose(ran.gradients["w"][2:], np.outer([2, 0.1], np.ones(4)), rtol=1e-15)
    tangent = np.array([1.0, 2.0])
    np.testing.assert_allclose(
        layer.jvp({"x": tangent})[:2], (slope[:, None] * w.T) @ tangent, rtol=1e-13
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_that_are_handed_over_one_by_one_are_those_of_all_rows(
    bound: Callable[..., JaxSubject], compiled: bool, dtype: str
) -> None:
    """In the dtype of the layer: in float64 they might take twice the memory of the layer."""
    values = {"x": X, "w": np.array([[0.25, 1.0], [-0.5, 0.75]])}
    layer = bound("dense", values, dtype=dtype, compiled=compiled)
    every: list[dict[str, Any]] = []
    found = layer.run(Call(cotangents=np.eye(4), each=lambda _, one: every.append(one)))
    whole = layer.run(Call(cotangents=np.eye(4)))
    assert not found.gradients
    assert found.dtypes == whole.dtypes
    np.testing.assert_array_equal(found.output, whole.output)
    for name in ("x", "w"):
        assert {one[name].dtype.name for one in every} == {dtype}
        np.testing.assert_array_equal([one[name] for one in every], whole.gradients[name])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_copied_but_for_those_that_the_layer_may_write_to(
    bound: Callable[..., JaxSubject], dtype: str
) -> None:
    """These are used where they lie, if they have the dtype and begin where XLA wants them to."""
    layer = bound("dense", {"x": X, "w": np.ones((2, 2))}, dtype=dtype)
    numbers = np.arange(32.0).reshape(4, 8)
    for given in (np.dtype(np.float32), np.dtype(np.float64)):
        mine = aligned((4, 8), given)
        mine[...] = numbers
        with layer.ready({}):
            copy, spare, across = (
                layer.inputs(values)["x"]
                for values in ({"x": mine}, Spare(x=mine), Spare(x=mine.T))
            )
        assert {made.dtype.name for made in (copy, spare, across)} == {dtype}
        np.testing.assert_array_equal(across, numbers.T)  # not in the order that XLA wants
        np.testing.assert_array_equal(spare, numbers)
        assert (spare.unsafe_buffer_pointer() == mine.ctypes.data) == (given.name == dtype)
        mine[...] = 0.0
        np.testing.assert_array_equal(copy, numbers)


def test_a_leaf_without_a_gradient_has_none_in_any_row(bound: Callable[..., JaxSubject]) -> None:
    layer = bound("stopped", {"x": X, "w": X})
    rows = np.eye(layer.outputs[0].size)
    every: list[dict[str, Any]] = []
    layer.run(Call(cotangents=rows, each=lambda _, one: every.append(one)))
    whole = layer.run(Call(cotangents=rows)).gradients
    missing = {name for name, gradient in whole.items() if gradient is None}
    assert missing
    assert all({name for name, g in one.items() if g is None} == missing for one in every)


@pytest.mark.parametrize(("name", "compiles"), [("doubled_until", True), ("branched", False)])
def test_differences_of_a_slow_layer_are_of_one_compiled_program(
    bound: Callable[..., JaxSubject], monkeypatch: pytest.MonkeyPatch, name: str, compiles: bool
) -> None:
    """Where it can be traced as a whole; its values are the same."""
    monkeypatch.setattr("gradcheck_cli.engines.jax.layer.LOOPED_S", -1.0)
    layer = bound(name, {"x": X, "w": np.array([1.5, 0.5])})
    points = [{"x": X * part} for part in (1.0, 1.5, 0.25)]
    expected = np.stack([layer.value(point) for point in points])
    np.testing.assert_allclose(layer.several(points), expected, rtol=1e-14)
    assert (layer.stencils.looped == 0) is compiles


def test_float32_is_what_a_user_of_float32_has(bound: Callable[..., JaxSubject]) -> None:
    """Arrays that the layer makes of nothing do not make float64 of everything."""
    layer = bound("dense", {"x": X, "w": np.eye(2)}, dtype="float32")
    assert {one.dtype for one in layer.outputs} == {"float32"}
    assert layer.run(Call(cotangents=np.eye(4)[:1])).dtypes == {"x": "float32", "w": "float32"}


def test_stated_derivatives_are_what_is_given(bound: Callable[..., JaxSubject]) -> None:
    wrong = bound("wrong", {"x": X})
    given = wrong.run(Call(cotangents=np.eye(2))).gradients["x"]
    np.testing.assert_allclose(given, np.diag(np.cos(X) * X), rtol=1e-14)
    with pytest.raises(Unsupported, match=r"no forward mode through a jax\.custom_vjp"):
        wrong.jvp({"x": np.ones(2)})
    cube = bound("cube", {"x": X})
    np.testing.assert_allclose(cube.jvp({"x": np.ones(2)}), 3 * X**2, rtol=1e-14)
    second = cube.hvp("reverse-over-reverse", np.ones(2), {"x": np.ones(2)})
    np.testing.assert_allclose(second["x"], 6 * X, rtol=1e-14)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_jvp_that_is_not_linear_is_told_of(
    bound: Callable[..., JaxSubject], compiled: bool
) -> None:
    layer = bound("squared_tangent", {"x": X}, compiled=compiled)
    with pytest.raises(NotImplementedError) as raised:
        layer.run(Call(cotangents=np.eye(2)))
    assert raised.value.__notes__[-1].startswith("a custom jvp must be linear in its tangents")


@pytest.mark.parametrize("compiled", [False, True])
def test_a_loop_without_a_reverse_mode_has_rows_where_forward_mode_alone_is_asked_for(
    bound: Callable[..., JaxSubject], compiled: bool
) -> None:
    values = {"x": np.array([3.0, 4.0]), "w": np.array([1.0, 1.5])}
    with pytest.raises(ValueError, match="Reverse-mode") as raised:
        bound("doubled_until", values, compiled=compiled).run(Call(cotangents=np.eye(3)))
    assert raised.value.__notes__[-1].startswith(
        "forward mode supports such loops: `modes: [forward]`"
    )
    layer = bound("doubled_until", values, compiled=compiled, forward=True)
    x, w = values["x"], values["w"]
    turns = 3
    assert np.sum(x * (2 * w) ** turns) > 100 > np.sum(x * (2 * w) ** (turns - 1))
    by_x = np.diag((2 * w) ** turns)
    by_w = np.diag(turns * x * 2**turns * w ** (turns - 1))
    rows = np.array([[1.0, 0.0, 0.0], [0.5, -2.0, 0.0], [0.0, 0.0, 3.0]])
    ran = layer.run(Call(cotangents=rows))
    whole = np.vstack([by_x, by_x.sum(axis=0)])
    np.testing.assert_allclose(ran.gradients["x"], rows @ whole, rtol=1e-14)
    whole = np.vstack([by_w, by_w.sum(axis=0)])
    np.testing.assert_allclose(ran.gradients["w"], rows @ whole, rtol=1e-14)
    ran = layer.run(
        Call(cotangents=rows, wrt=("w",), used_outputs=("y['n']",), values={"w": 2 * w})
    )
    assert ran.gradients.keys() == {"w"}
    np.testing.assert_allclose(ran.gradients["w"][:2], 0.0)
    assert ran.gradients["w"][2, 0] == 3 * 2 * x[0] * 2**2 * (2 * w[0])  # now twice


def test_columns_are_limited(bound: Callable[..., JaxSubject]) -> None:
    values = {"x": np.ones(2000), "w": np.ones(2000)}
    layer = bound("doubled_until", {**values, "x": values["x"] / 100}, forward=True)
    with pytest.raises(
        Unsupported, match=r"no reverse mode for it, .* 4000 passes, more than 1024"
    ):
        layer.run(Call(cotangents=np.ones((1, 2001))))


def test_arrays_of_a_layer_that_is_a_tree_are_its_parameters(
    bound: Callable[..., JaxSubject],
) -> None:
    layer = bound("made", {"x": X, "b": np.array([0.5, 0.25])}, rounding="float32")
    assert {leaf.name: leaf.role for leaf in layer.leaves} == {
        "x": "input",
        "w": "parameter",
        "b": "parameter",
        "scale": "captured",
    }
    w, scale = np.array([0.1, 3.0], np.float32), np.array([2.0, 0.1], np.float32)
    ran = layer.run(Call(cotangents=np.eye(2)))
    np.testing.assert_allclose(ran.output, w * X + [0.5, 0.25] * scale, rtol=1e-7)
    np.testing.assert_array_equal(ran.gradients["w"], np.diag(X))
    np.testing.assert_array_equal(ran.gradients["b"], np.diag(scale))
    np.testing.assert_array_equal(layer.jvp({"w": np.ones(2)}), X)
    with pytest.raises(BadCall, match=r"`w` is given with shape \(3,\), but has shape \(2,\)"):
        bound("made", {"x": X, "w": np.ones(3)})


def test_what_draws_random_numbers_by_a_key_is_known(bound: Callable[..., JaxSubject]) -> None:
    assert bound("noisy", {"x": X}).run(Call(watch=True)).random
    assert bound("drawn_by_rejection", {"x": X}).run(Call(watch=True)).random
    assert not bound("scaled", {"x": X}).run(Call(watch=True)).random


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: jnp.sin(x) if x[0] > 0 else jnp.cos(x),
        lambda x: x * float(x[0] > 0),
        lambda x: x[x > 0] ** 2,
        lambda x: sum(x[: int(jnp.sum(x > 0))]),
    ],
)
def test_a_layer_may_branch_on_its_numbers_in_python(layer: Callable[..., Any]) -> None:
    assert check(layer, jnp.array([0.5, -1.25, 2.0])).passed


@pytest.mark.parametrize("layer", [lambda x: x, lambda x: (x * x, np.ones(3))])
def test_outputs_may_be_inputs_or_arrays_of_numpy(layer: Callable[..., Any]) -> None:
    assert check(layer, jnp.array([0.5, -1.25, 2.0])).passed


def test_a_call_may_delete_what_it_is_given(bound: Callable[..., JaxSubject]) -> None:
    layer = bound("donated", {"x": X})
    for _ in range(2):
        np.testing.assert_array_equal(layer.value({}), X * X)
    np.testing.assert_array_equal(layer.several([{}, {}]), [X * X, X * X])


def test_a_large_leaf_lies_in_the_memory_of_its_numbers_which_no_call_writes_to(
    bound: Callable[..., JaxSubject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcheck_cli.engines.jax.layer.LARGE", 1)
    mine = aligned(X.shape, X.dtype)
    mine[...] = X
    layer = bound("donated", {"x": mine})
    for _ in range(2):
        np.testing.assert_array_equal(layer.value({}), X * X)
    np.testing.assert_array_equal(mine, X)
    with layer.ready({}):
        assert layer.inputs({})["x"].unsafe_buffer_pointer() == mine.ctypes.data


def test_another_value_and_another_point(bound: Callable[..., JaxSubject]) -> None:
    layer = bound("Power", {"x": X}, args=(3,))
    np.testing.assert_allclose(layer.value({"x": 2 * X}), 8 * X**3, rtol=1e-14)
    np.testing.assert_allclose(layer.several([{"x": X}, {}]), [X**3, X**3], rtol=1e-14)
    ran = layer.run(Call(cotangents=np.eye(2), interleaved_inputs={"x": 5 * X}))
    np.testing.assert_allclose(ran.gradients["x"], np.diag(3 * X**2), rtol=1e-14)


def test_what_was_compiled_with_a_captured_array_is_forgotten(
    bound: Callable[..., JaxSubject],
) -> None:
    """0.1 in float32 is another number than in float64: each subject has its own, and the layer has
    the user's again."""
    narrow = bound("scaled", {"x": X}, rounding="float32")
    np.testing.assert_array_equal(narrow.value({}), X * np.array([2.0, np.float32(0.1)]))
    assert "`scale`, which the layer captured, is not checked" in narrow.notes
    narrow.close()
    wide = bound("scaled", {"x": X})
    np.testing.assert_array_equal(wide.value({}), X * np.array([2.0, 0.1]))
    wide.close()


def test_a_layer_may_compile_while_it_is_lowered() -> None:
    import jax
    import jax.numpy as jnp
    from jax.extend import core
    from jax.interpreters import ad, mlir

    doubled = core.Primitive("doubled")
    doubled.def_abstract_eval(lambda x: x)
    doubled.def_impl(lambda x: jax.jit(doubled.bind)(x))
    ad.deflinear2(doubled, lambda y_bar, x: [doubled.bind(y_bar)])

    def lower(context: Any, x: Any) -> Any:
        two = float(jax.jit(lambda one: one + 1)(jnp.float32(1)))
        return mlir.lower_fun(lambda y: y * two, multiple_results=False)(context, x)

    mlir.register_lowering(doubled, lower)
    JaxEngine().load()  # from now on, contexts are shared
    report = check(lambda x: doubled.bind(jnp.sin(x)), jnp.array([0.5, 1.0]), dtypes=["float32"])
    assert report.passed, report


@pytest.mark.parametrize("name", ["drawn", "drawn_tree"])
def test_what_a_layer_draws_when_it_is_made_is_the_same_in_every_dtype(
    bound: Callable[..., JaxSubject], name: str
) -> None:
    narrow = bound(name, {"x": X}, dtype="float32")
    wide = bound(name, {"x": X}, rounding="float32")
    assert [output.dtype for output in wide.outputs] == ["float64"]
    np.testing.assert_allclose(narrow.value({}), wide.value({}), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_that_jax_fills_with_zeros_is_none(
    bound: Callable[..., JaxSubject], compiled: bool
) -> None:
    values = {"x": X, "w": X + 1}
    for name in ("forgotten", "stopped"):
        found = bound(name, values, compiled=compiled).run(Call(cotangents=np.eye(2))).gradients
        assert found["x"] is None
        assert found["w"] is not None
    stated = (
        bound("zeros", values, compiled=compiled).run(Call(cotangents=np.eye(2))).gradients["x"]
    )
    assert stated is not None
    assert not stated.any()


def _jvp_without_a_tangent() -> Any:
    @jax.custom_jvp
    def both(x: Any) -> Any:
        return jnp.sin(x), jnp.cos(x)

    both.defjvp(lambda x, x_dot: (both(*x), (x_dot[0] * jnp.cos(x[0]), None)))
    return both


def _vjp_without_a_cotangent() -> Any:
    product = jax.custom_vjp(lambda x: jnp.sin(x) * x)
    product.defvjp(lambda x: (jnp.sin(x) * x, x), lambda x, bar: (bar * jnp.cos(x), bar))
    return product


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (_jvp_without_a_tangent, "does not return a tangent for each output"),
        (_vjp_without_a_cotangent, "returns a tuple of 2; it must have a gradient for each of 1"),
    ],
)
def test_a_rule_that_lacks_a_part_of_its_answer_is_told_so(
    made: Callable[[], Any], words: str
) -> None:
    report = check(made(), jnp.array([0.3, 1.2]))
    assert {found.code for found in report.findings} == {"GC103"}
    assert all(words in found.message for found in report.findings)


def _backward_of(rule: Callable[..., Any]) -> Any:
    @jax.custom_vjp
    def scaled(p: Any, w: Any) -> Any:
        return p["x"] * w

    scaled.defvjp(lambda p, w: (p["x"] * w, (p["x"], w)), rule)
    return lambda x: scaled({"x": x}, jnp.array([2.0, 3.0], x.dtype))


@pytest.mark.parametrize(
    ("rule", "words", "text"),
    [
        (
            lambda kept, g: ({"x": (g * kept[1])[None]}, g * kept[0]),
            "your backward returns a gradient float32[1,2] for `['x']` of argument 1, which is "
            "float32[2]",
            "(g * kept[1])[None]",
        ),
        (
            lambda kept, g: ({"x": g * kept[1]}, jnp.sum(g * kept[0])),
            "your backward returns a gradient float32[] for argument 2, which is float32[2]",
            "jnp.sum(g * kept[0])",
        ),
        (
            lambda kept, g: {"x": g * kept[1]},
            "your backward returns a dict; it must return a tuple with a gradient for each of 2 "
            "arguments",
            '{"x": g * kept[1]}',
        ),
        (
            lambda kept, g: ({"y": g * kept[1]}, g * kept[0]),
            "your backward returns a gradient with other parts than its argument",
            '({"y": g * kept[1]}, g * kept[0])',
        ),
    ],
)
def test_a_backward_that_returns_another_kind_is_named_by_its_line(
    rule: Any, words: str, text: str
) -> None:
    report = check(_backward_of(rule), jnp.array([0.3, 1.2]), dtypes=("float32",))
    found = report.results[0].findings[0]
    assert (found.code, found.message) == ("GC103", words)
    assert found.place is not None
    assert found.place.text == text


@pytest.mark.parametrize(
    ("engine", "layer"), [(JaxJitEngine(), jnp.tanh), (JaxEngine(), jax.jit(lambda x: x * x))]
)
def test_a_compiler_that_is_switched_off_has_a_note(engine: JaxEngine, layer: Any) -> None:
    assert JIT_DISABLED not in subject_of(engine, layer, x=[0.5, 1.5]).notes
    with jax.disable_jit():
        assert JIT_DISABLED in subject_of(engine, layer, x=[0.5, 1.5]).notes


@pytest.mark.parametrize("engine", [JaxEngine(), JaxJitEngine()])
def test_a_static_argument_is_given_as_a_number_and_told(engine: JaxEngine) -> None:
    layer = jax.jit(lambda x, power: x * power if power > 2 else x, static_argnums=1)
    subject = subject_of(engine, layer, x=[0.5, 1.5], power=3)
    assert RETRACED.format("power") in subject.notes
    assert subject.run(Call(cotangents=np.eye(2))).gradients["x"].tolist() == [[3, 0], [0, 3]]
