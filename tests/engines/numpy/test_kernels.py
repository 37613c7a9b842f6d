"""The forward of a pair of NumPy, recorded, becomes a program in the rows of these kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.lifting import NotLifted
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from tests.checks.making import assert_computes, subject_of

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6], [-0.2, 0.9, 1.6]])
H = np.random.default_rng(0).standard_normal((3, 3))


def pair(forward: Callable[..., Any], **more: Any) -> Subject:
    both = SimpleNamespace(forward=forward, backward=lambda *_: None)
    return subject_of(NumpyEngine(), both, x=X, **more)


def dense(x: Any, h: Any) -> Any:
    return np.tanh(x @ h + h[0])


def convolution(x: Any, h: Any) -> Any:
    wide, out = np.pad(x, 1), np.zeros_like(x)
    for i, j in np.ndindex(3, 3):
        out[i, j] = np.sum(wide[i : i + 3, j : j + 3] * h)
    return out


def convolution_by_windows(x: Any, h: Any) -> Any:
    return np.einsum("ijkl,kl->ij", sliding_window_view(x, (2, 2)), h[:2, :2])


def normalisation(x: Any) -> Any:
    return (x - x.mean(0)) / np.sqrt(x.var(axis=0, keepdims=True) + 1e-5)


def attention(x: Any, h: Any) -> Any:
    q = x @ h
    scores = q @ q.T / np.sqrt(3.0)
    scores -= scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=-1, keepdims=True)
    return p @ x


def cell(x: Any, h: Any) -> Any:
    gates = np.concatenate([x, h], axis=1)
    forget = 1 / (1 + np.exp(-gates[:, ::2]))
    return forget * h + (1 - forget) * np.tanh(np.hstack([x[:, 1:], h[:, :1]]))


def loss(x: Any) -> Any:
    top = np.max(x, axis=1, keepdims=True)
    logs = top[:, 0] + np.log(np.sum(np.exp(x - top), axis=1))
    return np.mean(logs - x[np.arange(3), np.array([0, 2, 1])])


def loop(x: Any) -> Any:
    while x.sum() < 20:
        x = np.sin(x) + x + np.cumsum(np.abs(x), axis=1).mean()
    return x


def written_through_a_view(x: Any) -> Any:
    y = x[:, ::-1].copy()
    first = y[0]
    first *= 2
    y[:, 1] += x[:, 0]
    np.add.at(y, np.array([0, 0, 1]), x)
    return np.where(y > 0, y, np.expm1(y)) * first


def put_together(x: Any) -> Any:
    rows = np.array([[x[0, 0] * 2, 1.0], [x[1, 1], x[0, 0] * x[1, 1]]])
    return np.stack([rows, np.full_like(rows, 3.0)]) * np.median(x)


def ordered(x: Any) -> Any:
    best = np.take_along_axis(x, np.argsort(x, axis=1), axis=1)
    return np.sort(x, axis=0) * best + np.maximum.accumulate(x, axis=0)


def matrices(x: Any, h: Any) -> Any:
    spd = x @ x.T + np.eye(3)
    solved = np.linalg.solve(spd, h[0]) + np.linalg.inv(spd) @ h[1] + np.linalg.cholesky(spd)[2]
    sign, size = np.linalg.slogdet(spd)
    return solved * size + np.linalg.norm(h) + np.linalg.eigvalsh(spd) + sign * np.trace(x)


def complex_numbers(x: Any, h: Any) -> Any:
    z = x + 1j * h
    y = (z**3 / (z + 2j)).real + np.exp(z).imag + np.abs(z) * np.angle(z)
    y += (np.sqrt(z) + np.tanh(z) - np.conj(z) * np.sin(z)).imag + (2.0 / z).real
    return y + (z @ z.T.conj()).real + np.einsum("ij,jk->ik", z, h).imag + z.sum(axis=0).real


def transforms(x: Any, h: Any) -> Any:
    y = np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(h, norm="forward"), n=3)
    y += np.abs(np.fft.fft(x, n=5, axis=0))[:3] + np.fft.fft2(x + 1j * h, s=(2, 4)).imag[1, :3]
    return y + np.fft.ifftn(x * h, norm="ortho").imag + np.fft.irfft2(np.fft.fft(h), s=(3, 3))


def special_functions(x: Any) -> Any:
    y, found = np.abs(x), []
    for name in (*("j0", "j1", "y0", "y1", "k0", "k1"), *("dawsn", "expi", "exp1", "spence")):
        found.append(getattr(special, name)(y))
    found += [special.jv(2.5, y), special.yn(2, y), special.kn(2, y), special.iv(0.5, y)]
    return np.stack([*found, special.kve(1, y), special.expn(3, y), *special.fresnel(y)])


LAYERS = [
    special_functions,
    lambda x: special.sici(np.abs(x))[0] * special.sici(np.abs(x))[1],
    *(dense, convolution, convolution_by_windows, normalisation, attention, cell, loss, loop),
    *(written_through_a_view, put_together, ordered, matrices),
    lambda x: np.prod(x, axis=0) + x.std(axis=0, ddof=1) + np.linalg.norm(x, axis=1),
    lambda x: np.dot(x, x[0]) + np.outer(x[0], x[1]) + np.multiply.outer(x[0], x[2]),
    lambda x: np.logaddexp(0, np.diff(x, axis=0)),
    *(complex_numbers, transforms),
]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_program_computes_the_layer_here_and_nearby(layer: Callable[..., Any]) -> None:
    more = {"h": H} if layer.__code__.co_argcount == 2 else {}
    subject = pair(layer, **more)
    lifted = subject.lift()
    for moved in ({}, {"x": X + 1e-3}, {name: value - 1e-3 for name, value in more.items()}):
        assert_computes(lifted, subject, moved)


def test_a_function_without_rows_is_refused_by_name() -> None:
    with pytest.raises(NotLifted, match="no formula for `interp`"):
        pair(lambda x: np.interp(x, [0.0, 1.0], [0.0, 2.0])).lift().without_islands()


def test_an_output_that_was_computed_unseen_is_refused() -> None:
    with pytest.raises(Unsupported, match="its operations cannot be recorded"):
        pair(lambda x: float(x[0, 0]) ** 2).lift()
