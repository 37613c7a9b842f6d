"""What is compiled of JAX is compiled once for a shape and dtype, and again where it differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.jax import programs
from gradcheck_cli.engines.jax.engine import JaxJitEngine
from gradcheck_cli.engines.jax.layer import JaxSubject
from gradcheck_cli.engines.jax.programs import Compiled, key_of, programs_known
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from tests.checks.making import subject_of

LAYERS = """
import jax
import jax.numpy as jnp


class Recurrent:
    def __init__(self, scale):
        self.scale = jnp.array([1.0, scale])

    def __call__(self, x):
        def step(state, row):  # another function at every call
            state = jnp.tanh(self.scale * row + state)
            return state, state

        _, states = jax.lax.scan(step, jnp.zeros(2), x)
        return jax.lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: y * 3, states)


def jitted(x, factor=2.0):
    @jax.jit
    def root(x):
        return jax.lax.fori_loop(0, 5, lambda _, y: y - (y * y - factor * x) / (2 * y), x)

    return root(x)


def stated(x):
    cube = jax.custom_vjp(jax.jit(lambda x: x**3))
    cube.defvjp(lambda x: (jax.jit(lambda x: x**3)(x), x), lambda x, g: (3 * g * x * x,))
    return cube(x)


def branch(x):
    return x * 2 if x[0] > 0 else x * 3


def drawn(x):
    return x * jax.random.gamma(jax.random.key(0), x)


def smooth(x):
    return jnp.sum(jnp.log(1 + jnp.exp(jnp.tanh(x * 3) * 3)) / jnp.sqrt(1 + jnp.exp(-x)))


def choosing(x):
    largest = x[jnp.argmax(x)] * jnp.sort(x)[::-1]
    return jax.lax.cond(jnp.sum(x) > 0, jnp.cumsum, jnp.square, largest)


def drawing(x):
    return x * jax.random.uniform(jax.random.key(0)) + jax.nn.gelu(x)
"""


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """One entry for everything that XLA has compiled since."""
    seen: list[str] = []

    def listen(event: str, _duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def bound(tmp_path: Path) -> Callable[..., JaxSubject]:
    (tmp_path / "layers.py").write_text(LAYERS, "utf-8")

    def bind(
        name: str, x: np.ndarray, *args: float, jit: bool, dtype: str = "float64"
    ) -> JaxSubject:
        target = Implementation("jax", f"layers.py:{name}", str(tmp_path), Span(1, 1, 1, 2), args)
        return JaxSubject(SubjectRequest(target, {"x": x}, dtype, dtype), jit)

    return bind


def _look(layer: JaxSubject) -> np.ndarray:
    """A row of the Jacobian, which forward mode confirms."""
    row = np.eye(layer.outputs[0].size)[-1]
    rows = layer.run(Call(cotangents=np.stack([row, -row]))).gradients["x"]
    assert rows is not None
    forward = layer.jvp({"x": np.ones_like(layer.leaves[0].value)})[-1]
    np.testing.assert_allclose(rows.sum(axis=1), [forward, -forward], rtol=1e-13)
    return rows[0]


@pytest.mark.parametrize("jit", [False, True])
def test_another_point_compiles_nothing_and_another_captured_array_does(
    bound: Callable[..., JaxSubject], compiled: list[str], jit: bool
) -> None:
    x = np.array([[0.5, -1.25], [0.25, 1.0], [-0.5, 0.75]])
    first = _look(bound("Recurrent", x, 0.5, jit=jit))
    compiled.clear()
    _look(bound("Recurrent", x / 2, 0.5, jit=jit))
    assert compiled == []
    other = _look(bound("Recurrent", x, 0.25, jit=jit))
    assert bool(compiled) == jit  # by itself JAX is handed the array; jax.jit compiles it in
    assert not np.allclose(first, other)
    np.testing.assert_array_equal(_look(bound("Recurrent", x, 0.5, jit=jit)), first)


def test_a_sampler_that_is_a_loop_of_python_is_compiled_once(
    bound: Callable[..., JaxSubject], compiled: list[str]
) -> None:
    """JAX itself traces and compiles it at every call, and a lift of it takes differences."""
    (island,) = bound("drawn", np.array([0.5, 2.0]), jit=False).lift().islands
    first = island.call(island.at)
    compiled.clear()
    assert not np.array_equal(island.call(island.at * 1.25), first)
    np.testing.assert_array_equal(island.call(island.at), first)
    assert compiled == []


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(("smooth", "float64"), ("choosing", "float64"), ("choosing", "float32")),
        *(("drawing", "float64"), ("drawing", "float32"), ("jitted", "float64")),
    ],
)
def test_a_compiled_layer_is_lifted_without_compiling_what_numpy_has(
    bound: Callable[..., JaxSubject], compiled: list[str], name: str, dtype: str
) -> None:
    """It has no operations on integers, which count turns and make random numbers. In float32, the
    layer draws the numbers that it draws where float64 is off."""
    x = np.array([0.5, 1.25])
    plain, layer = (bound(name, x, jit=jit, dtype=dtype) for jit in (False, True))
    expected = plain.lift()
    compiled.clear()
    found = layer.lift()
    assert compiled == [] or name != "smooth"
    assert found.computes_as(expected)


@pytest.mark.parametrize("name", ["jitted", "stated"])
def test_what_a_layer_jits_at_every_call_is_compiled_once(
    bound: Callable[..., JaxSubject], compiled: list[str], name: str
) -> None:
    x = np.array([0.5, 1.25])
    layer = bound(name, x, jit=False)
    first = layer.value({})
    layer.run(Call(cotangents=np.eye(2)))
    compiled.clear()
    assert not np.allclose(layer.value({"x": x + 1}), first)
    np.testing.assert_array_equal(layer.value({}), first)
    layer.run(Call(cotangents=np.eye(2)))
    assert compiled == []


def test_what_a_layer_jits_with_another_number_is_another_program(
    bound: Callable[..., JaxSubject], compiled: list[str]
) -> None:
    x = np.array([0.5, 1.25])
    for factor in (2.0, 3.0):
        found = bound("jitted", x, factor, jit=False).value({})
        y = x.copy()
        for _ in range(5):
            y = y - (y * y - factor * x) / (2 * y)
        np.testing.assert_allclose(found, y, rtol=1e-13)


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value


class Empty:
    pass


def test_parameters_are_known_by_what_they_hold() -> None:
    def made(number: float) -> tuple[object, ...]:
        held = {"a": (np.array([number]), Plain([number, None])), "b": partial(max, number)}
        return held, jax.tree.structure([held, Plain(number)])

    assert key_of(made(1.0)) == key_of(made(1.0))
    assert key_of(made(1.0)) != key_of(made(2.0))


def test_parameters_without_contents_are_known_by_identity() -> None:
    one, other = Empty(), Empty()
    assert key_of(one) == key_of(one) != key_of(other)
    loop = Plain(None)
    loop.value = loop
    assert key_of(loop) == key_of(loop)


def test_a_branch_on_a_number_is_an_error_under_jit_that_names_the_layer(
    bound: Callable[..., JaxSubject],
) -> None:
    x = np.array([0.5])
    np.testing.assert_array_equal(bound("branch", x, jit=False).value({}), 2 * x)
    with pytest.raises(
        jax.errors.TracerBoolConversionError, match=r"function branch at .*layers\.py:\d+ for jit"
    ):
        bound("branch", x, jit=True)


def test_programs_that_differ_in_a_number_alone_are_two() -> None:
    x = np.ones(2, np.float32)
    for literal in (2.0, 3.0, 0.0, -0.0, float("nan")):
        found = Compiled(lambda x, literal=literal: x * literal, print)(jax.device_put(x))
        np.testing.assert_array_equal(found, x * np.float32(literal))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(x * np.float32(literal)))


def test_an_array_is_compiled_in_as_its_numbers_are() -> None:
    x = jax.device_put(np.ones(2, np.float32))
    for numbers in ([1.0, 2.0], [1.0, 3.0]):
        array = jax.device_put(np.array(numbers, np.float32))
        found = Compiled(lambda x, array=array: x * array, print)(x)
        np.testing.assert_array_equal(found, numbers)


def test_what_was_compiled_runs_uncompiled_where_jit_is_disabled() -> None:
    x = jax.device_put(np.ones(2, np.float32))
    double = Compiled(lambda x: 2 * x, print)
    np.testing.assert_array_equal(double(x), [2.0, 2.0])
    with jax.disable_jit():
        np.testing.assert_array_equal(double(x), [2.0, 2.0])


def test_what_python_is_called_back_for_is_its_own() -> None:
    x = jax.device_put(np.ones(2, np.float32))
    shape = jax.ShapeDtypeStruct((2,), np.float32)
    for factor in (2, 3):

        def called(x: np.ndarray, factor: int = factor) -> np.ndarray:
            return np.float32(factor) * x

        found = Compiled(lambda x, called=called: jax.pure_callback(called, shape, x), print)(x)
        np.testing.assert_array_equal(found, [factor, factor])


def test_a_callback_that_is_defined_anew_in_each_call_is_compiled_once(
    compiled: list[str],
) -> None:
    shape = jax.ShapeDtypeStruct((2,), np.float32)
    counts: list[int] = []

    def turn(factor: float, counts: list[int]) -> None:
        def square(x: np.ndarray) -> np.ndarray:
            return x * x

        def called(x: np.ndarray, power: int = 1) -> np.ndarray:
            counts.append(power)
            return np.asarray(square(np.asarray(x)) * np.float32(factor))

        found = jax.pure_callback(called, shape, jnp.array([2.0, 3.0], np.float32))
        np.testing.assert_array_equal(found, [4 * factor, 9 * factor])

    with programs_known():
        turn(2.0, counts)
        compiled.clear()
        turn(2.0, counts)
        assert compiled == []
        turn(3.0, counts)
        other = list(counts)
        turn(2.0, other)
    assert len(counts) == 3
    assert len(other) == 4


def test_the_clock_stands_still_while_xla_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(patience, "tell", begun.append)
    compiled = Compiled(lambda x: jax.numpy.sin(x) * 0.372, np.sin)
    for x in (0.5, 0.75):
        assert compiled(jax.numpy.float32(x)) == pytest.approx(np.sin(x) * 0.372)
    assert begun == [True, False]


def test_an_operation_is_compiled_once_whatever_jax_forgets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But what calls back into Python: its call holds an object."""
    from jax._src import compiler

    compiled: list[str] = []
    own = compiler.compile_or_get_cached

    @wraps(own)
    def counted(*args: Any, **named: Any) -> Any:
        compiled.append("")
        return own(*args, **named)

    monkeypatch.setattr(compiler, "compile_or_get_cached", counted)
    x = jnp.array([0.25, 3.5, -7.0])
    shape = jax.ShapeDtypeStruct((3,), x.dtype)

    def turn() -> None:
        jax.clear_caches()
        jnp.arctanh(x)
        jax.pure_callback(lambda y: np.asarray(y), shape, x)

    with programs_known():
        turn()
        first = len(compiled)
        turn()
    assert first >= 2
    assert len(compiled) == first + 1
    turn()
    assert len(compiled) >= first + 3


@jax.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, y_bar: (y_bar * jnp.cos(x),))


@jax.custom_vjp
def product(x: Any, w: Any) -> Any:
    return x @ w


def _seeing_requests(x: Any, w: Any) -> Any:
    return x.value @ w.value, (x.value, w.value, 1.0 if w.perturbed else 2.0)


product.defvjp(
    _seeing_requests,
    lambda kept, y_bar: (kept[2] * y_bar @ kept[1].T, kept[0].T @ y_bar),
    symbolic_zeros=True,
)


def _swept(x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda y, row: (jnp.tanh(y @ w @ w.T * row), 0.0), x, x)[0].sum()


X, W = np.array([[0.3, -1.2], [0.8, 0.1]]), np.array([[0.5, -0.4], [0.2, 0.9]])


@pytest.mark.parametrize(
    "layer",
    [
        lambda x, w: jax.nn.softmax(x @ w).sum(axis=1)[0] * w.sum(),
        lambda x, w: jnp.linalg.norm(jax.nn.gelu(x @ w)),
        lambda x, w: jnp.sort(sine(x @ w), axis=0)[0].sum(),
        _swept,
    ],
    ids=["softmax", "gelu", "a custom vjp", "a loop"],
)
def test_the_gradient_of_one_leaf_is_a_part_of_what_was_compiled(
    layer: Any, compiled: list[str]
) -> None:
    subject = subject_of(JaxJitEngine(), layer, x=X, w=W)
    call = Call(cotangents=np.ones((1, 1)))
    whole = subject.run(call).gradients
    compiled.clear()
    for name in ("x", "w"):
        part = subject.run(replace(call, wrt=(name,))).gradients
        np.testing.assert_array_equal(np.asarray(part[name]), np.asarray(whole[name]))
    assert compiled == []


@pytest.mark.parametrize("stated", [False, True])
def test_a_derivative_that_the_value_determines_is_traced_once(stated: bool) -> None:
    """With a rule in Python it is traced anew, because the rule may do something else."""
    traced: list[str] = []

    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        traced.append("")
        return jnp.tanh(x) * w

    layer: Any = product
    if stated:
        layer = jax.custom_vjp(product)
        layer.defvjp(
            lambda x, w: (product(x, w), (x, w)),
            lambda kept, g: (g * kept[1] * (1 - jnp.tanh(kept[0]) ** 2), g * jnp.tanh(kept[0])),
        )

    def gradients() -> dict[str, Any]:
        subject = subject_of(JaxJitEngine(), layer, x=X, w=W)
        call = Call(cotangents=np.ones((1, X.size)))
        return {n: subject.run(replace(call, wrt=(n,))).gradients[n] for n in ("x", "w")}

    first, before = gradients(), len(traced)
    again = gradients()
    assert (len(traced) - before == 1) == (not stated)  # for its value
    for name, expected in {"x": W * (1 - np.tanh(X) ** 2), "w": np.tanh(X)}.items():
        np.testing.assert_array_equal(first[name], again[name])
        np.testing.assert_allclose(first[name].reshape(X.shape), expected, rtol=1e-14)


def test_a_gradient_that_depends_on_what_is_requested_is_compiled_again() -> None:
    def layer(x: Any, w: Any) -> Any:
        return product(x, w).sum()

    subject = subject_of(JaxJitEngine(), layer, x=X, w=W)
    call = Call(cotangents=np.ones((1, 1)))
    whole, part = (subject.run(one).gradients["x"] for one in (call, replace(call, wrt=("x",))))
    assert whole is not None
    np.testing.assert_array_equal(np.asarray(part), 2 * whole)


@pytest.mark.parametrize(
    "layer", [lambda x, w: x @ w, lambda x, w: (jnp.sin(x @ w).sum(), sine(x))]
)
def test_the_value_is_of_the_program_that_has_the_gradients(
    layer: Any, compiled: list[str]
) -> None:
    subject = subject_of(JaxJitEngine(), layer, x=X, w=W)
    assert len(compiled) == 1
    rows = np.eye(sum(output.size for output in subject.outputs))
    for call in (Call(), Call(cotangents=rows), Call(tracking=False), Call({"x": 2 * X})):
        assert subject.run(call).output.size == len(rows)
    assert len(compiled) == 1


def test_a_layer_without_a_derivative_has_a_value() -> None:
    def refuse(*_: Any) -> Any:
        raise ValueError("no derivative")

    layer = jax.custom_vjp(lambda x: 2 * x)
    layer.defvjp(refuse, refuse)
    subject = subject_of(JaxJitEngine(), layer, x=X)
    np.testing.assert_array_equal(subject.run(Call()).output, 2 * X.reshape(-1))
    with pytest.raises(ValueError, match="no derivative"):
        subject.run(Call(cotangents=np.ones((1, X.size))))


def test_an_option_that_saves_time_is_left_out_where_xla_does_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = {"xla_option_of_another_version": False}
    with pytest.raises(jax.errors.JaxRuntimeError, match="option"):
        Compiled(jnp.sinh, jnp.sinh, unknown)(jnp.ones(3))
    monkeypatch.setattr(programs, "UNOPTIMISED", unknown)
    np.testing.assert_allclose(Compiled(jnp.cosh, jnp.cosh, unknown)(jnp.ones(3)), np.cosh(1))
