"""What is peculiar to TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import aligned
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.tensorflow.framework import TensorFlow


@pytest.fixture
def tf_engine(engine_called: Callable[[str], Engine]) -> Engine:
    return engine_called("tensorflow")


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("a @ b", ((3,), (3,))),
        ("a @ b", ((2, 3), (3,))),
        ("a @ b", ((3,), (3, 2))),
        ("a @ b", ((4, 2, 3), (3,))),
        ("a @ b", ((2, 3), (4, 3, 2))),
    ],
)
def test_products_of_vectors_and_stacks_are_numpys(
    tf_engine: Engine, ask: Callable[..., Any], text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    answer = ask(tf_engine, text, a=a, b=b)
    np.testing.assert_allclose(answer.output, a @ b, rtol=1e-14)


@pytest.mark.parametrize("bounds", ["min=0.5", "max=0.5", "-1, 0.5"])
def test_clip_with_one_bound(tf_engine: Engine, ask: Callable[..., Any], bounds: str) -> None:
    x = np.array([-2.0, 0.0, 2.0])
    answer = ask(tf_engine, f"clip(x, {bounds})", x=x)
    np.testing.assert_array_equal(answer.output, eval(f"np.clip(x, {bounds})", {"np": np, "x": x}))


@pytest.mark.parametrize("number", ["3", "10 ** 18", "-(2 ** 53)"])
def test_whole_numbers_are_filled_with_constants(
    tf_engine: Engine, ask: Callable[..., Any], number: str
) -> None:
    # in float32 10^18 is rounded, to another whole number
    x, n = np.array([0.5, 1.5]), np.array([1, 2])
    answer = ask(tf_engine, f"x * full_like(n, {number})", x=x, n=n, dtype="float32")
    assert answer.failure is None
    np.testing.assert_allclose(answer.output, x * float(eval(number)), rtol=1e-6)


def test_dtype_or_shape_that_an_op_lacks_is_unsupported(tf_engine: Engine) -> None:
    import tensorflow as tf

    assert isinstance(tf_engine, TensorFlowEngine)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.raw_ops.Erf(x=tf.constant([1], tf.int64))
    assert tf_engine.lacks(caught.value)
    for dtype in (tf.float32, tf.float64):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            tf.matmul(tf.ones((2, 2), dtype), tf.ones(2, dtype))
        assert tf_engine.lacks(caught.value)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.reshape(tf.ones(3), (2, 2))
    assert not tf_engine.lacks(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("start", [0, 1])
def test_an_array_is_a_copy(dtype: str, start: int) -> None:
    """Wherever its numbers begin: TensorFlow might use those where they lie that it need not
    convert."""
    for given in (np.dtype(np.float32), np.dtype(np.float64)):
        numbers = aligned((257,), given)[start:]
        numbers[...] = 1.0
        made = TensorFlow({}, dtype).array(numbers)
        numbers[...] = 2.0
        assert made.dtype.name == dtype
        assert np.all(made.numpy() == 1.0)


def test_module_costs_no_framework() -> None:
    code = (
        "import sys\n"
        "from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine\n"
        "TensorFlowEngine().capabilities\n"
        "print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
