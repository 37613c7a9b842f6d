"""What a layer's module changes of JAX's configuration does not outlast it."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.jax.layer import JaxSubject
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest

LAYER = """
import jax

jax.config.update("jax_enable_x64", False)
jax.config.update("jax_debug_nans", True)


def layer(x):
    jax.config.update("jax_default_matmul_precision", "bfloat16")
    return jax.numpy.sqrt(x)
"""


def test_settings_of_a_module_and_of_a_call_are_put_back(tmp_path: Path) -> None:
    """With `jax_debug_nans` a nan would be an exception, in this layer and in the specs after."""
    (tmp_path / "layers.py").write_text(LAYER, "utf-8")
    before = dict(jax.config.values)
    target = Implementation("jax", "layers.py:layer", str(tmp_path), Span(1, 1, 1, 2))
    x = np.array([-1.0, 4.0])
    for jit in (False, True):
        layer = JaxSubject(SubjectRequest(target, {"x": x}, "float64", "float64"), jit)
        np.testing.assert_array_equal(layer.value({}), [np.nan, 2.0])
        np.testing.assert_array_equal(
            layer.run(Call(cotangents=np.eye(2)[1:])).dtypes["x"], "float64"
        )
        assert jax.config.values == before
