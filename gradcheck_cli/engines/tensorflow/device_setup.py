"""Makes TensorFlow compute on a device, like `torch.device_setup`, by TensorFlow's own
functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.temporarily import default_variable


@contextmanager
def placed(placement: Placement) -> Iterator[None]:
    """Place arrays of this thread on the device, and compute products and convolutions in the
    requested precision, inside the block. Raises EngineFault if TensorFlow has no such device."""
    import tensorflow as tf

    kind = {"cuda": "GPU"}.get(placement.kind, placement.kind.upper())
    with default_variable("TF_FORCE_GPU_ALLOW_GROWTH", "true"):  # otherwise it takes all memory
        devices = tf.config.list_logical_devices(kind)
    if placement.index >= len(devices):
        built = "with" if tf.test.is_built_with_cuda() else "without"
        raise EngineFault(
            f"TensorFlow {tf.__version__} is built {built} CUDA and finds {len(devices)} GPUs: pip "
            "install 'tensorflow[and-cuda]' installs the libraries for them"
        )
    experimental = tf.config.experimental
    before = experimental.tensor_float_32_execution_enabled()
    experimental.enable_tensor_float_32_execution(placement.matmul == "tf32")
    try:
        with tf.device(devices[placement.index].name):
            yield
    finally:
        experimental.enable_tensor_float_32_execution(before)
