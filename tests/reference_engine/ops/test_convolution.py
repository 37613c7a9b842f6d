"""Convolutions in parts, their shapes and memory; what does not fit is refused."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.signal

from reference_engine import ShapeError, conv1d, conv2d, conv_transpose2d, grad, square
from reference_engine import sum as total
from reference_engine.op import TABLE
from reference_engine.ops import convolution
from tests.reference_engine.samples import SAMPLES

LAYERS: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("conv1d", (5, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", (5, 4, 7, 6), (6, 2, 3, 2), {"stride": (1, 2), "padding": (1, 0), "groups": 2}),
    ("conv2d", (3, 2, 9, 4), (2, 2, 2, 2), {"dilation": (3, 1)}),
    ("conv_transpose2d", (5, 4, 4, 3), (4, 3, 3, 2), {"stride": 2, "groups": 2}),
]


@pytest.mark.parametrize("limit", [1, 400, 2000])  # a row, some rows, some images at a time
@pytest.mark.parametrize(("name", "x_shape", "w_shape", "keywords"), LAYERS)
def test_in_parts_it_is_the_same(
    name: str,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    keywords: dict[str, Any],
    limit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.uniform(-1, 1, x_shape), rng.uniform(-1, 1, w_shape)

    def energy(x: Any, w: Any) -> Any:
        return total(square(TABLE[name](x, w, **keywords)))

    whole = (TABLE[name](x, w, **keywords), *grad(energy, (0, 1))(x, w))
    monkeypatch.setattr(convolution, "_COLUMNS", limit)
    parts = (TABLE[name](x, w, **keywords), *grad(energy, (0, 1))(x, w))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)  # sums in another order


def test_a_large_one_against_scipy() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.uniform(-1, 1, (2, 3, 70, 90)), rng.uniform(-1, 1, (4, 3, 5, 3))
    expected = [
        [
            sum(scipy.signal.correlate2d(a, b, "valid") for a, b in zip(image, kernel, strict=True))
            for kernel in w
        ]
        for image in x
    ]
    np.testing.assert_allclose(conv2d(x, w), expected, rtol=0, atol=1e-13)  # 45 terms up to 1


def test_memory_stays_near_that_of_the_arrays() -> None:
    """All columns at once would take 25 times as much as x."""
    x, w = np.ones((4, 8, 64, 64)), np.ones((8, 8, 5, 5))
    gradient = grad(lambda x, w: total(square(conv2d(x, w))), (0, 1))
    gradient(x, w)
    tracemalloc.start()
    gradient(x, w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * x.nbytes


@pytest.mark.parametrize(
    "name", [name for name, row in TABLE.items() if row.family in ("convolution", "pooling")]
)
def test_the_stated_shape_is_that_of_the_result(name: str) -> None:
    row = TABLE[name]
    assert row.result_shape is not None
    for sample in SAMPLES[name]:
        stated = row.result_shape(*sample.shapes, **sample.keywords)
        assert stated == row.value(*sample.arrays(0), **sample.keywords).shape


UNFIT: list[tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    (conv1d, (1, 2, 5), (1, 2, 2, 2), {}, "3 axes"),
    (conv2d, (1, 2, 5, 5), (1, 3, 2, 2), {}, "2 channels"),
    (conv2d, (1, 4, 5, 5), (3, 2, 2, 2), {"groups": 2}, "3 outputs"),
    (conv2d, (1, 1, 2, 5), (1, 1, 3, 3), {}, "does not fit into"),
    (conv2d, (1, 1, 5, 5), (1, 1, 3, 3), {"stride": 0}, "stride must be"),
    (conv2d, (1, 1, 5, 5), (1, 1, 3, 3), {"padding": (1, 2, 3)}, "padding must be"),
    (conv2d, (1, 1, 5, 5), (1, 1, 3, 3), {"padding": 0.5}, "padding must be"),
    (conv_transpose2d, (1, 2, 5, 5), (3, 2, 2, 2), {}, r"C, O / groups"),
    (conv_transpose2d, (1, 2, 5, 5), (2, 1, 2, 2), {"output_padding": 1}, "less than stride"),
    (conv_transpose2d, (1, 2, 1, 1), (2, 1, 2, 2), {"padding": 2}, "nothing is left"),
    (conv_transpose2d, (1, 3, 5, 5), (3, 2, 2, 2), {"groups": 2}, "2 groups"),
]


@pytest.mark.parametrize(("layer", "x", "w", "keywords", "reason"), UNFIT)
def test_what_does_not_fit_is_refused(
    layer: Any, x: tuple[int, ...], w: tuple[int, ...], keywords: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ShapeError, match=reason):
        layer(np.ones(x), np.ones(w), **keywords)
    with pytest.raises(ShapeError, match=reason):
        layer.result_shape(x, w, **keywords)
