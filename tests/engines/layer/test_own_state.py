"""A layer that writes to what it holds and computes with it: every run finds what the first one
found, and is judged by the numbers that its user gets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.subject import Call, Subject, SubjectRequest
from gradcheck_cli.engines.registry import engines

X = np.array([0.4, -1.2, 2.0])
W = np.array([0.5, -1.5, 2.5])
SHRUNK = 0.75 * W
Layer = Callable[[], Any]


def of_torch(write: Callable[[Any], None], trained: bool = True, captured: bool = False) -> Layer:
    def made() -> Any:
        import torch

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                w = torch.tensor(W)
                if trained:
                    self.w = torch.nn.Parameter(w)
                else:
                    self.register_buffer("w", w)

            def forward(self, x: Any) -> Any:
                with torch.no_grad():
                    write(self.w)
                return torch.cos(x * self.w)

        module = Module()
        return (lambda x: module(x)) if captured else module

    return made


def by_data(w: Any) -> None:
    w.data.mul_(0.75)  # autograd does not count it


def of_tensorflow(trainable: bool) -> Layer:
    def made() -> Any:
        import tensorflow as tf

        class Module(tf.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = tf.Variable(W, trainable=trainable)

            def __call__(self, x: Any) -> Any:
                self.w.assign(0.75 * self.w)
                return tf.cos(x * self.w)

        return Module()

    return made


def arrays_of_numpy(name: str) -> Layer:
    """The array is captured, and written to in place."""

    def made() -> Any:
        w = W.copy()

        def shrunk() -> Any:
            np.multiply(w, 0.75, out=w)
            return w

        if name == "jax":
            import jax.numpy as jnp

            return lambda x: jnp.cos(x * shrunk())
        if name == "tensorflow":
            import tensorflow as tf

            return lambda x: tf.cos(x * tf.identity(shrunk()))
        return SimpleNamespace(
            forward=lambda x: np.cos(x * shrunk()),
            backward=lambda bar, x: -np.sin(x * w) * w * bar,
        )

    return made


class Owner:
    def __init__(self) -> None:
        self.w = W.copy()

    def forward(self, x: Any) -> Any:
        self.w *= 0.75
        self.x = x
        return np.cos(x * self.w)

    def backward(self, bar: Any) -> Any:
        return -np.sin(self.x * self.w) * self.w * bar


LAYERS: dict[str, tuple[str, Layer]] = {
    "parameter": ("torch", of_torch(lambda w: w.mul_(0.75))),
    "parameter, by its data": ("torch", of_torch(by_data)),
    "buffer": ("torch", of_torch(lambda w: w.mul_(0.75), trained=False)),
    "captured parameter": ("torch", of_torch(lambda w: w.mul_(0.75), captured=True)),
    "captured, by its data": ("torch", of_torch(by_data, captured=True)),
    "variable": ("tensorflow", of_tensorflow(True)),
    "variable that is not trained": ("tensorflow", of_tensorflow(False)),
    "attribute": ("numpy", Owner),
    **{f"array of NumPy, {n}": (n, arrays_of_numpy(n)) for n in ("tensorflow", "jax", "numpy")},
}


def bound(engine: str, layer: Any) -> Subject:
    found = engines()[engine].engine
    assert found is not None
    found.load()
    one = Implementation(engine, "layer", ".", Span(1, 1, 1, 2), live=layer)
    return found.subject(SubjectRequest(one, {"x": X}, "float64", "float64"))


@pytest.mark.parametrize("case", LAYERS)
def test_every_run_gives_what_the_user_gets(case: str) -> None:
    engine, made = LAYERS[case]
    value, slope = np.cos(X * SHRUNK), np.diag(-np.sin(X * SHRUNK) * SHRUNK)
    with surroundings():
        layer = bound(engine, made())
        for once in (False, True):  # each backward pass has a forward run of its own
            layer.runs_once = once
            ran = layer.run(Call(cotangents=np.eye(3)))
            np.testing.assert_allclose(ran.output, value, rtol=1e-14)
            np.testing.assert_allclose(ran.gradients["x"], slope, rtol=1e-13)
            np.testing.assert_allclose(layer.value({}), value, rtol=1e-14)
        if engine != "numpy":
            tangents = layer.jvps([{"x": unit} for unit in np.eye(3)])
            np.testing.assert_allclose(tangents, slope, rtol=1e-13)
        other = layer.run(Call({"x": 2 * X}, np.eye(3)))
        np.testing.assert_allclose(other.output, np.cos(2 * X * SHRUNK), rtol=1e-14)


@pytest.mark.parametrize("case", ["captured parameter", "captured, by its data"])
def test_what_a_layer_captured_is_as_it_was(case: str) -> None:
    """In its own memory, where the dtypes are the same."""
    _, made = LAYERS[case]
    with surroundings():
        function = made()
        (module,) = (cell.cell_contents for cell in function.__closure__)
        layer = bound("torch", function)
        layer.run(Call(cotangents=np.eye(3)))
        layer.close()
    np.testing.assert_array_equal(module.w.detach().numpy(), W)


@pytest.mark.parametrize(
    "case", ["parameter", "parameter, by its data", "captured parameter", "captured, by its data"]
)
def test_a_trace_has_what_was_written(case: str) -> None:
    """After the run the tensor has its own memory again, and the record that of the run."""
    engine, made = LAYERS[case]
    with surroundings():
        layer = bound(engine, made())
        recording = layer.record(np.ones(3))
        (output,) = recording.outputs
        np.testing.assert_allclose(
            recording.execution.values(output), np.cos(X * SHRUNK), rtol=1e-14
        )
        written = [recording.execution.values(s.results[0]) for s in recording.execution.steps]
        assert any(np.array_equal(numbers, SHRUNK) for numbers in written)


@pytest.mark.parametrize("is_buffer", [False, True])
def test_an_experiment_leaves_no_graph_behind(is_buffer: bool) -> None:
    """What takes the place of `detach()` once would make a constant a part of every later graph."""
    import torch

    class Average(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.tensor(W))

        def forward(self, x: Any) -> Any:
            self.seen.mul_(0.5).add_(0.5 * x.detach())
            return x * self.seen

    module = Average()
    with surroundings():
        layer = bound("torch", module if is_buffer else lambda x: module(x))
        _, (barrier,) = layer.uncut(np.ones(3))
        assert barrier.gradients is not None
        np.testing.assert_allclose(barrier.gradients["x"], 0.5 * W + X)
        for _ in range(2):
            ran = layer.run(Call(cotangents=np.ones((1, 3))))
            np.testing.assert_allclose(ran.row(0)["x"], 0.5 * W + 0.5 * X)
    assert module.seen.is_leaf
    assert not module.seen.requires_grad
