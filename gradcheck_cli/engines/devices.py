"""Finds the devices of this machine without importing a framework."""

from __future__ import annotations

import ctypes
from functools import cache

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.placement import Placement

DRIVERS = ("libcuda.so.1", "nvcuda.dll")  # NVIDIA's, on Linux and on Windows
HELP = (
    "`cpu` always exists; `cuda` needs an NVIDIA GPU, its driver, and a framework that was built "
    "for CUDA"
)


def require(wanted: Placement) -> None:
    """Raises UsageError with the available devices if this machine lacks the device."""
    lack = lacking(wanted)
    if lack:
        raise UsageError(f"there is no device `{wanted.device}` here: {lack}", HELP)


def lacking(wanted: Placement) -> str:
    """Why there is no such device; empty if there is one."""
    if wanted.kind != "cuda":
        return ""
    found, reason = cuda_devices()
    if found <= wanted.index:
        return reason or f"the last of the {found} CUDA devices is `cuda:{found - 1}`"
    return ""


@cache
def cuda_devices() -> tuple[int, str]:
    """The number of CUDA devices (CUDA_VISIBLE_DEVICES hides some), and the reason if there is
    none.

    Asks the driver (CUDA Driver API, cuInit and cuDeviceGetCount), as frameworks do.
    """
    driver = _driver()
    if driver is None:
        return 0, "no NVIDIA driver is installed"
    count = ctypes.c_int(0)
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if failed:
        return 0, f"the NVIDIA driver finds no GPU (its error {failed})"
    return count.value, "" if count.value else "the NVIDIA driver finds no GPU"


def _driver() -> ctypes.CDLL | None:
    for name in DRIVERS:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
