"""Functions that are asked for again: the numbers of `jax.numpy`, and what is not traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.derivatives import Closure


@pytest.fixture
def jax(engine_called: Callable[[str], Engine]) -> Any:
    engine_called("jax")
    import jax

    return jax


@pytest.fixture
def equations(jax: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """They trace what is asked for a second time."""
    from gradcheck_cli.engines.jax import equations as jax_equations

    monkeypatch.setattr(jax_equations, "_RUNS", 1)
    return jax_equations.Equations()


def _numbers(values: list[float], dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


# In float32 the mean is a product with the rounded third when it is compiled as one, as it is
# outside of `jax.jit`, and a quotient when it is taken apart.
@pytest.mark.parametrize("values", [[2.0, 4.0, 6.0], [0.1, -3.0, 7.3], [5.0, 0.0, 1e-3]])
def test_numbers_are_those_of_a_run_without_equations(
    jax: Any, equations: Any, values: list[float]
) -> None:
    def derivative(x: Any) -> Any:
        y, pull = jax.vjp(lambda x: jax.numpy.mean(x**2) + jax.nn.logsumexp(x), x)
        return y, pull(jax.numpy.ones_like(y))

    x = jax.device_put(_numbers(values))
    wanted, (wanted_bar,) = derivative(x)
    for _ in range(3):
        y, (x_bar,) = equations("f", 0, derivative, x)
        assert y == wanted
        np.testing.assert_array_equal(x_bar, wanted_bar)


def test_run_and_traced_once_for_every_shape(jax: Any, equations: Any) -> None:
    seen: list[tuple[int, bool]] = []

    def doubled(x: Any) -> Any:
        seen.append((len(x), isinstance(x, jax.core.Tracer)))
        return {"twice": 2 * x, "nothing": None, "seven": 7.0}

    for values in ([1.0], [2.0], [3.0, 4.0], [5.0, 6.0], [7.0], [8.0, 9.0], [10.0]):
        found = equations("doubled", 0, doubled, jax.device_put(_numbers(values)))
        assert found["twice"].tolist() == [2 * value for value in values]
        assert found["nothing"] is None
        assert found["seven"] == 7.0
    assert seen == [(1, False), (1, True), (2, False), (2, True)]


def test_what_cannot_be_traced_is_called(jax: Any, equations: Any) -> None:
    def chosen(x: Any) -> Any:
        return 2 * x if x > 0 else -x

    for value, wanted in ((3.0, 6.0), (-3.0, 3.0), (1.0, 2.0)):
        assert equations("chosen", 0, chosen, jax.device_put(np.float32(value))) == wanted


def test_stated_derivatives_that_are_not_asked_for(jax: Any, equations: Any) -> None:
    @jax.custom_jvp
    def mean(x: Any) -> Any:
        return jax.numpy.mean(x)

    mean.defjvp(lambda primals, tangents: (mean(*primals), jax.numpy.mean(*tangents)))
    for values in ([2.0, 4.0, 50.0], [2.0, 4.0, 6.0], [0.1, -3.0, 7.3]):
        x = jax.device_put(_numbers(values))
        for _ in range(2):
            assert equations("mean", 0, mean, x) == mean(x)


def test_faults_are_those_of_the_function(jax: Any, equations: Any) -> None:
    def faulty(x: Any) -> Any:
        raise LookupError("nothing here")

    for _ in range(3):
        with pytest.raises(LookupError, match="nothing here"):
            equations("faulty", 0, faulty, jax.device_put(np.float32(1.0)))


@pytest.mark.usefixtures("equations")
@pytest.mark.parametrize("derivative", ["vjp", "jvp"])
def test_a_derivative_is_run_and_traced_once(
    jax: Any, engine_called: Callable[[str], Engine], derivative: str
) -> None:
    fw = engine_called("jax").framework("float64")  # type: ignore[attr-defined]
    made: list[int] = []

    def cube(arrays: dict[str, Any], moved: Any, watch: Any = None) -> Any:
        made.append(1)
        x = moved[0] if isinstance(moved, list) else moved
        return [x**3 * arrays["a"]], None

    for x, a in ((2.0, 1.0), (3.0, 10.0), (-1.0, 0.5), (4.0, 2.0)):
        arrays = {"a": fw.array(np.array(a))}
        at, along = fw.array(np.array(x)), fw.array(np.array(1.0))
        if derivative == "vjp":
            (y,), _, vjp = fw.vjp(Closure(cube, arrays), [at])
            found = [vjp([along])[0], vjp([2 * along])[0] / 2]
        else:
            (y,), found, _ = fw.jvp(Closure(cube, arrays), [at], [along])
        assert float(y) == x**3 * a
        assert [float(g) for g in found] == [3 * x**2 * a] * len(found)
    assert len(made) == 2
