"""Operations of PyTorch that are made again on other arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.base import Engine


@pytest.fixture
def torch(engine_called: Callable[[str], Engine]) -> Any:
    engine_called("torch")
    import torch

    return torch


@pytest.fixture
def call(torch: Any) -> Callable[..., Any]:
    """call("cat.default", *args, **keywords) of ATen's operations."""
    from gradcheck_cli.engines.torch.calls import Call

    def made(name: str, *args: Any, **keywords: Any) -> Any:
        packet, overload = name.split(".")
        return Call(getattr(getattr(torch.ops.aten, packet), overload), args, keywords)

    return made


def test_arrays_in_a_list_and_beside_it(torch: Any, call: Callable[..., Any]) -> None:
    x, y = torch.ones(2), torch.zeros(1)
    made = call("cat.default", [x, y], 0)
    assert [one is given for one, given in zip((x, y), made.given, strict=True)] == [True, True]
    (low,) = made.low([torch.full((2,), 3.0), torch.full((1,), 4.0)])
    assert low.tolist() == [3, 3, 4]
    (wide,) = made.wide([np.full(2, 0.1), np.full(1, 0.2)])
    assert wide.tolist() == [0.1, 0.1, 0.2]


def test_number_in_an_arrays_place_is_given_anew(torch: Any, call: Callable[..., Any]) -> None:
    made = call("mul.Tensor", torch.ones(2), 3.0)
    assert made.given[1] == 3.0
    (found,) = made.wide([np.array([1.0, 2.0]), 0.1])
    assert found.tolist() == [0.1, 0.2]


def test_number_that_says_how_stays(torch: Any, call: Callable[..., Any]) -> None:
    made = call("sum.dim_IntList", torch.ones(2, 3), [1], True)
    assert len(made.given) == 1
    (found,) = made.low([torch.full((2, 3), 2.0)])
    assert found.tolist() == [[6], [6]]


def test_dtype_is_widened(torch: Any, call: Callable[..., Any]) -> None:
    made = call("_to_copy.default", torch.ones(1), dtype=torch.float16)
    (low,) = made.low([torch.tensor([0.1])])
    (wide,) = made.wide([np.array([0.1])])
    assert low.dtype == torch.float16
    assert (wide.dtype, wide.tolist()) == (np.float64, [0.1])


def test_what_is_written_to_is_a_copy(torch: Any, call: Callable[..., Any]) -> None:
    x = np.array([1.0, 2.0])
    made = call("add_.Tensor", torch.ones(2), torch.ones(2))
    assert made.wide([x, np.ones(2)])[0].tolist() == [2, 3]
    assert x.tolist() == [1, 2]


def test_strides_and_axes_are_kept() -> None:
    from gradcheck_cli.engines.torch.calls import as_tensor

    x = np.arange(6.0).reshape(2, 3)
    assert as_tensor(x.T[::-1]).tolist() == x.T[::-1].tolist()
    assert as_tensor(np.float64(2.0)).shape == ()
    assert as_tensor(np.broadcast_to(np.array(1.0), (2,))).tolist() == [1, 1]


def test_numbers_are_given_on_the_device_of_the_call(torch: Any) -> None:
    """Kernels that are on one device only, as cuDNN's, run again there."""
    from gradcheck_cli.engines.torch.calls import _like

    given = _like(np.ones(2), torch.ones(2, dtype=torch.float32, device="meta"))
    assert (given.device.type, given.dtype) == ("meta", torch.float64)
