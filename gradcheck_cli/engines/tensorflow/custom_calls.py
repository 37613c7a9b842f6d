"""Finds the custom gradients of the user that a call passes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tracebacks import one_line

_DECORATORS = ("_eager_mode_decorator", "_graph_mode_decorator")
"""The functions that `tf.custom_gradient` calls (tensorflow/python/ops/custom_gradient.py)."""


@contextmanager
def custom_gradients() -> Iterator[list[str]]:
    """The names of the functions under `tf.custom_gradient` that are called inside the block.
    Functions of TensorFlow and Keras are exact, and are left out."""
    from tensorflow.python.ops import custom_gradient

    called: list[str] = []

    def noted(run: Callable[..., Any]) -> Callable[..., Any]:
        def running(function: Any, *rest: Any) -> Any:
            if not of_a_library(getattr(function, "__module__", None)):
                called.append(function.__name__)
            return run(function, *rest)

        return running

    watched = {name: noted(getattr(custom_gradient, name)) for name in _DECORATORS}
    with temporarily(custom_gradient, **watched):
        yield called


@contextmanager
def forward_mode() -> Iterator[None]:
    """Raise Unsupported if TensorFlow's forward mode raises, or ignores a custom gradient."""
    with custom_gradients() as called:
        try:
            yield
        except Unsupported:
            raise
        except Exception as error:  # of TensorFlow, about loops or tensor lists: the layer runs
            raise Unsupported(f"TensorFlow's forward mode raises {one_line(error)}") from error
        if called:
            raise Unsupported(
                f"TensorFlow's forward mode ignores the custom gradient of `{called[0]}`: it "
                "differentiates the operations inside it"
            )
