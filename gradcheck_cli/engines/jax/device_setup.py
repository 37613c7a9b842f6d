"""Makes JAX compute on a device, like `torch.device_setup`, by JAX's own functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.temporarily import default_variable


@contextmanager
def placed(placement: Placement) -> Iterator[None]:
    """Place new arrays on the device, and compute products in the requested precision, inside the
    block. Raises EngineFault if JAX has no such device."""
    import jax

    try:
        with default_variable(
            "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
        ):  # or it takes 3/4 of the memory
            devices = jax.devices(placement.kind)
    except RuntimeError:
        devices = []
    if placement.index >= len(devices):
        raise EngineFault(
            f"JAX {jax.__version__} finds {len(devices)} devices of the kind {placement.kind}: pip "
            "install 'jax[cuda12]' installs the libraries for them"
        )
    precision = "highest" if placement.matmul == "full" else "tensorfloat32"
    wanted = {
        "jax_default_device": devices[placement.index],
        "jax_default_matmul_precision": precision,
    }
    before = {name: getattr(jax.config, name) for name in wanted}
    for name, value in wanted.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
