"""Which custom gradients of the user's a call goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tracebacks import one_line

_DECORATORS = ("_eager_mode_decorator", "_graph_mode_decorator")
"""What `tf.custom_gradient` calls (tensorflow/python/ops/custom_gradient.py)."""


@contextmanager
def custom_gradients() -> Iterator[list[str]]:
    """Names of the functions under `tf.custom_gradient` that are called meanwhile. Those of
    TensorFlow and Keras themselves are exact, and left out."""
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
    """What TensorFlow's forward mode raises, or gets wrong, is raised as Unsupported."""
    with custom_gradients() as called:
        try:
            yield
        except Unsupported:
            raise
        except Exception as error:  # not the layer's, which runs without: loops, tensor lists
            raise Unsupported(f"TensorFlow's forward mode raises {one_line(error)}") from error
        if called:
            raise Unsupported(
                f"TensorFlow's forward mode ignores the custom gradient of `{called[0]}`: it "
                "differentiates the operations inside it"
            )
