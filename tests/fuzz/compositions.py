"""Right layers: random compositions of smooth functions and a few kinks, in every framework, in
both orders, at ordinary, saturated, tied and tiny numbers. None of them may be called wrong.

Half of the layers are opaque: their forward calls NumPy, so none of its operations is seen, and
their backward is the framework's. Finite differences decide about these.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import gradcheck_cli
from tests.fuzz.driver import Finding, drawn

FRAMEWORKS = ("torch", "jax", "tensorflow", "numpy")
ACCUSING = (
    "GC101",
    "GC102",
    "GC103",
    "GC105",
    "GC106",
    "GC602",
    "GC605",
    "GC607",
    "GC701",
    "GC706",
)
DEPTH = 3

UNARY = (
    "sin({})",
    "cos({})",
    "exp({})",
    "tanh({})",
    "sigmoid({})",
    "atan({})",
    "expm1({})",
    "log1p(abs({}))",
    "sqrt(1 + {0} * {0})",
    "{0} * {0}",
    "log(1 + exp(-({})))",
    "abs({})",
)
BINARY = ("({} + {})", "({} - {})", "({} * {})", "{0} / (1 + {1} * {1})", "maximum({}, {})")
LEAVES = ("x", "y", "x", "y", "0.7 * x", "(1.3 + y)")


@dataclass(frozen=True)
class Composition:
    text: str
    framework: str
    opaque: bool
    order: int
    x: list[float]
    y: list[float]

    def layer(self) -> Any:
        return MADE[self.framework](self.text, self.opaque)

    def checked(self) -> Any:
        array = _arrays(self.framework)
        order = 1 if self.framework == "numpy" else self.order
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return gradcheck_cli.check(self.layer(), array(self.x), array(self.y), order=order)


def _expression(rng: np.random.Generator, depth: int) -> str:
    if depth == 0:
        return str(rng.choice(LEAVES))
    if rng.random() < 0.5:
        return str(rng.choice(UNARY)).format(f"({_expression(rng, depth - 1)})")
    left, right = _expression(rng, depth - 1), _expression(rng, depth - 1)
    return str(rng.choice(BINARY)).format(left, f"({right})")


def _depends_on_both(text: str) -> bool:
    return "x" in text.replace("exp", "").replace("maximum", "") and "y" in text


def _number(rng: np.random.Generator) -> float:
    return float(
        rng.choice(
            [
                rng.uniform(-2, 2),
                rng.uniform(-30, 30),
                10 ** rng.uniform(-9, 0),
                -(10 ** rng.uniform(-20, -9)),
                0.0,
                1.0,
                -1e-7,
            ]
        )
    )


def _arrays(framework: str) -> Callable[[list[float]], Any]:
    if framework == "torch":
        import torch

        return lambda x: torch.tensor(x, dtype=torch.float64)
    if framework == "jax":
        import jax.numpy as jnp

        return jnp.array
    if framework == "tensorflow":
        import tensorflow as tf

        return lambda x: tf.constant(x, tf.float64)
    return np.array


@cache
def functions(framework: str) -> Mapping[str, Callable[..., Any]]:
    """The functions of expressions, by name."""
    names = ("sin", "cos", "exp", "tanh", "expm1", "log1p", "sqrt", "abs", "maximum", "log")
    if framework == "torch":
        import torch

        return {
            **{n: getattr(torch, n) for n in names},
            "atan": torch.atan,
            "sigmoid": torch.sigmoid,
        }
    if framework == "jax":
        import jax

        own = {n: getattr(jax.numpy, n) for n in names}
        return {**own, "atan": jax.numpy.arctan, "sigmoid": jax.nn.sigmoid}
    if framework == "tensorflow":
        import tensorflow as tf

        own = {n: getattr(tf.math, n) for n in names}
        return {**own, "atan": tf.math.atan, "sigmoid": tf.math.sigmoid}
    from scipy.special import expit

    return {**{n: getattr(np, n) for n in names}, "atan": np.arctan, "sigmoid": expit}


def evaluated(text: str, framework: str) -> Callable[[Any, Any], Any]:
    code = compile(text, text, "eval")
    known = functions(framework)
    return lambda x, y: eval(code, {**known, "x": x, "y": y})


def _by_numpy(text: str) -> Callable[[Any, Any], Any]:
    """The value of the text as an array of the inputs' dtype."""
    value = evaluated(text, "numpy")

    def found(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        with np.errstate(all="ignore"):
            return np.asarray(value(x, y), x.dtype)

    return found


AROUND = 32  # points, each at two distances
BEYOND = (1e-3, 1e-7)


def touches(text: str, x: list[float], y: list[float]) -> bool:
    """Whether the function touches a kink of `abs` or `maximum` at a point without crossing it,
    like abs(y * y) at 0. Around the point the whole is smooth, and the framework's derivative at
    the kink, 0 instead of the second derivative 2, is wrong."""
    sides: list[Any] = []

    def absolute(u: Any) -> Any:
        sides.append(np.sign(u) * np.ones(2))
        return np.abs(u)

    def maximum(u: Any, v: Any) -> Any:
        sides.append(np.sign(u - v) * np.ones(2))
        return np.maximum(u, v)

    known = {**functions("numpy"), "abs": absolute, "maximum": maximum}
    code = compile(text, text, "eval")

    def seen(at: Any, beside: Any) -> Any:
        sides.clear()
        with np.errstate(all="ignore"):
            eval(code, {**known, "x": at, "y": beside})
        return np.reshape(sides, (-1, 2))

    rng = np.random.default_rng(0)
    here = seen(np.array(x), np.array(y))
    around = np.array(
        [
            seen(x + far * rng.standard_normal(2), y + far * rng.standard_normal(2))
            for far in BEYOND
            for _ in range(AROUND)
        ]
    )
    return bool(np.any((here == 0) & (np.all(around >= 0, axis=0) | np.all(around <= 0, axis=0))))


def _of_torch(text: str, opaque: bool) -> Any:
    import torch

    value, by_numpy = evaluated(text, "torch"), _by_numpy(text)
    if not opaque:
        return value

    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return torch.from_numpy(by_numpy(x.detach().numpy(), y.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            with torch.enable_grad():
                x, y = (one.view_as(one) for one in ctx.saved_tensors)
                if not x.requires_grad:
                    x, y = x.requires_grad_(), y.requires_grad_()
                made, again = value(x, y), torch.is_grad_enabled()
                found = torch.autograd.grad(
                    made, (x, y), upstream, create_graph=again, allow_unused=True
                )
            return tuple(torch.zeros_like(x) if g is None else g for g in found)

    return lambda x, y: Opaque.apply(x, y)


def _of_jax(text: str, opaque: bool) -> Any:
    import jax

    value, by_numpy = evaluated(text, "jax"), _by_numpy(text)
    if not opaque:
        return value

    @jax.custom_jvp
    def layer(x: Any, y: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(by_numpy, shape, x, y, vmap_method="sequential")

    @layer.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return layer(*primals), jax.jvp(value, primals, tangents)[1]

    return layer


def _of_tensorflow(text: str, opaque: bool) -> Any:
    import tensorflow as tf

    value, by_numpy = evaluated(text, "tensorflow"), _by_numpy(text)
    if not opaque:
        return value

    @tf.custom_gradient
    def layer(x: Any, y: Any) -> Any:
        found = tf.numpy_function(by_numpy, [x, y], x.dtype)
        found.set_shape(x.shape)

        def pulled(upstream: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch((x, y))
                made = tf.reduce_sum(value(x, y) * upstream)
            unused = tf.UnconnectedGradients.ZERO
            return tape.gradient(made, (x, y), unconnected_gradients=unused)

        return found, pulled

    return layer


def _of_numpy(text: str, opaque: bool) -> Any:
    """A pair whose backward is PyTorch's."""
    import torch

    value, by_numpy = evaluated(text, "torch"), _by_numpy(text)

    class Pair:
        def forward(self, x: Any, y: Any) -> Any:
            self.x, self.y = x.copy(), y.copy()
            return by_numpy(x, y)

        def backward(self, upstream: Any) -> Any:
            x, y = (torch.from_numpy(one).requires_grad_() for one in (self.x, self.y))
            bar = torch.from_numpy(np.array(upstream))
            found = torch.autograd.grad(value(x, y), (x, y), bar, allow_unused=True)
            return tuple(np.zeros_like(self.x) if g is None else g.numpy() for g in found)

    return Pair()


MADE: dict[str, Callable[[str, bool], Any]] = {
    "torch": _of_torch,
    "jax": _of_jax,
    "tensorflow": _of_tensorflow,
    "numpy": _of_numpy,
}


class Compositions:
    """The fuzzer of right layers."""

    name = "compositions"

    def __init__(self, frameworks: Sequence[str] = FRAMEWORKS) -> None:
        self.counted: Counter[str] = Counter()
        self._frameworks = frameworks

    def __enter__(self) -> Compositions:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def input(self, seed: int, index: int) -> Composition:
        rng = drawn(seed, self.name, index)
        while True:  # a function like maximum(x, x) touches its kink at every point
            text = _expression(rng, DEPTH)
            x, y = ([_number(rng), _number(rng)] for _ in "xy")
            if _depends_on_both(text) and not touches(text, x, y):
                break
        framework = self._frameworks[int(rng.integers(len(self._frameworks)))]
        return Composition(
            text, framework, bool(rng.random() < 0.5), 1 + int(rng.integers(2)), x, y
        )

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        for index in indices:
            one = self.input(seed, index)
            self.counted[one.framework] += 1
            report = one.checked()
            told = {f"{f.code} {f.mode} {f.dtype}" for f in report.findings if f.code in ACCUSING}
            if told:
                yield Finding(index, f"accused: {'; '.join(sorted(told))}", f"{one!r}\n", ".py")
