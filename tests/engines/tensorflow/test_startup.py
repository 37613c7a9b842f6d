"""What is left out comes when something asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gradcheck_cli.engines.tensorflow.startup import only_tensorflow

CODE = """
import sys
from gradcheck_cli.engines.tensorflow.startup import only_tensorflow

with only_tensorflow():
    import tensorflow as tf
assert not {"jax", "keras"} & set(sys.modules)
assert tf.keras.layers.Dense(3)(tf.ones((2, 2))).shape == (2, 3)
assert tf.compat.v1.Session.__name__ == "Session"
from tensorflow.compat.v1 import placeholder
from tensorflow.keras import Sequential
import jax
with only_tensorflow():  # once everything is there, nothing is hidden any more
    import jax as again, keras
assert again is jax and tf.compat.v1.placeholder is placeholder
"""


@pytest.mark.exhaustive
def test_what_is_left_out_comes_when_something_asks_for_it() -> None:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_hidden_modules_are_there_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)

    def fails() -> None:
        with only_tensorflow():
            assert sys.modules["jax"] is None
            raise ImportError("no TensorFlow here")

    with pytest.raises(ImportError, match="no TensorFlow here"):
        fails()
    assert "jax" not in sys.modules
    assert set(sys.modules) <= before
