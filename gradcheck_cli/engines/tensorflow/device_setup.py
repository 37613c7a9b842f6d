"""Makes TensorFlow compute on a device, by its own functions, as `torch.device_setup` does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.temporarily import unless_told


@contextmanager
def placed(tf: Any, placement: Placement) -> Iterator[None]:
    """Arrays that this thread makes are placed on the device. Products and convolutions have the
    requested precision."""
    kind = {"cuda": "GPU"}.get(placement.kind, placement.kind.upper())
    with unless_told("TF_FORCE_GPU_ALLOW_GROWTH", "true"):  # else it takes all there is
        found = tf.config.list_logical_devices(kind)
    if placement.index >= len(found):
        built = "with" if tf.test.is_built_with_cuda() else "without"
        raise EngineFault(
            f"TensorFlow {tf.__version__} is built {built} CUDA and finds {len(found)} GPUs: pip "
            "install 'tensorflow[and-cuda]' installs the libraries for them"
        )
    experimental = tf.config.experimental
    before = experimental.tensor_float_32_execution_enabled()
    experimental.enable_tensor_float_32_execution(placement.matmul == "tf32")
    try:
        with tf.device(found[placement.index].name):
            yield
    finally:
        experimental.enable_tensor_float_32_execution(before)
