"""Which devices there are, by what the driver says."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import POINTER, c_int, cast
from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.engines import devices


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """driver(GPUs, error of cuInit), or driver(None) where none is installed."""

    def installed(count: int | None, error: int = 0) -> None:
        def told(place: Any) -> int:
            cast(place, POINTER(c_int))[0] = count or 0
            return 0

        made = SimpleNamespace(cuInit=lambda flags: error, cuDeviceGetCount=told)
        monkeypatch.setattr(devices, "_driver", lambda: None if count is None else made)
        devices.cuda_devices.cache_clear()

    yield installed
    devices.cuda_devices.cache_clear()


def test_a_gpu_that_is_there_is_accepted(driver: Any) -> None:
    driver(2)
    for device in ("cuda", "cuda:0", "cuda:1"):
        devices.require(Placement(device))
    assert devices.lacking(Placement("cuda:2")) == "the last of the 2 CUDA devices is `cuda:1`"


@pytest.mark.parametrize(
    ("count", "error", "words"),
    [
        (None, 0, "no NVIDIA driver is installed"),
        (0, 0, "the NVIDIA driver finds no GPU"),
        (0, 100, "the NVIDIA driver finds no GPU (its error 100)"),
    ],
)
def test_a_machine_without_one_is_told_of(
    driver: Any, count: int | None, error: int, words: str
) -> None:
    driver(count, error)
    with pytest.raises(UsageError) as raised:
        devices.require(Placement("cuda"))
    assert str(raised.value) == f"there is no device `cuda` here: {words}"
    assert "needs an NVIDIA GPU" in raised.value.help


def test_the_cpu_needs_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cuda_devices", lambda: pytest.fail("nobody asked for a GPU"))
    devices.require(HOST)
    devices.require(Placement("cpu:1"))
