"""Where engines compute: everything goes to the device, and what comes back is the same.

No machine without a GPU has `cuda`; but JAX and TensorFlow can split the CPU into several devices,
and PyTorch's device `meta` has shapes without numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.kit.walker import prepare
from gradcheck_cli.engines.layer.subject import SubjectRequest
from gradcheck_cli.engines.torch.device_setup import placed
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.engines.torch.layer import TorchSubject
from tests.conftest import program_of

SECOND = """
import os
from contextlib import contextmanager
import numpy as np
from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from gradcheck_cli.engines.registry import engines
from tests.conftest import program_of

VALUES = {"x": np.array([0.5, 2.0]), "n": np.array([1, 0])}
PROGRAM = program_of("sum(take(x, n, axis=0) * arange(2) * 3 + ones_like(x)) ** 2", VALUES)


@contextmanager
def during(variable):
    # whether the environment is told meanwhile how memory is taken
    seen, kept = set(), type(os.environ).__setitem__

    def noted(self, name, value):
        seen.update({name} & {variable})
        kept(self, name, value)

    type(os.environ).__setitem__ = noted
    try:
        yield seen
    finally:
        type(os.environ).__setitem__ = kept


def check(name, places, precision, matmul, memory):
    # `matmul` is not what the framework does by itself
    engine = engines()[name].engine
    engine.place(Placement("cpu:1", matmul))
    with during(memory) as seen:
        engine.load()
    assert seen == {memory} and memory not in os.environ, seen
    assert precision() == matmul, precision()
    arrays = engine.framework("float32")
    x = VALUES["x"]
    for made in (arrays.array(x), arrays.leaf(x), arrays.constant(2.0, "float")):
        assert places(made) == 1, (name, places(made))
    for mode in ("reverse", "forward"):
        got = engine.evaluate(Problem(PROGRAM, VALUES, ("x",), "float32", "float32", mode))
        assert got.failure is None, got.failure
        assert got.gradients["x"].values.tolist() == [[21.0, 0.0]]

    def layer(x):
        assert places(x) == 1, places(x)
        return x * x

    implementation = Implementation(name, "layer", "", Span(1, 1, 1, 2), live=layer)
    request = SubjectRequest(implementation, {"x": VALUES["x"]}, "float32", "float32")
    ran = engine.subject(request).run(Call(cotangents=np.eye(2)))
    assert ran.gradients["x"].tolist() == [[1.0, 0.0], [0.0, 4.0]]
    engine.close()
    assert precision() != matmul, precision()
    beyond = type(engine)()
    beyond.place(Placement("cuda:1"))
    try:
        beyond.load()
    except Exception as error:
        assert "finds" in str(error), error
    else:
        raise AssertionError("it found a GPU")


import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
experimental = tf.config.experimental
check(
    "tensorflow",
    lambda array: int(array.device[-1]),
    lambda: "tf32" if experimental.tensor_float_32_execution_enabled() else "full",
    "full",
    "TF_FORCE_GPU_ALLOW_GROWTH",
)

import jax

check(
    "jax",
    lambda array: 1 if isinstance(array, jax.core.Tracer) else min(d.id for d in array.devices()),
    lambda: {"tensorfloat32": "tf32"}.get(jax.config.jax_default_matmul_precision, "full"),
    "tf32",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)
"""


@pytest.mark.exhaustive
def test_a_second_device_of_jax_and_of_tensorflow_computes_everything() -> None:
    root = Path(__file__).parents[3]
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", SECOND],
        env={**os.environ, **flags},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_array_of_a_formula_is_on_the_device_of_torch() -> None:
    engine = TorchEngine()
    engine.place(Placement("meta"))
    engine.load()
    values = {"x": np.array([0.5, 2.0]), "n": np.array([1, 0])}
    program = program_of("sum(take(x, n, axis=0) * arange(2) * 3 + ones_like(x)) ** 2", values)
    arrays = engine.framework("float32")
    prepared = prepare(program, arrays, "float32")
    with engine._on_device():
        made = prepared.run([arrays.leaf(values["x"]), arrays.array(values["n"])])
    tensors = [value for value in made if isinstance(value, torch.Tensor)]
    assert len(tensors) >= 6
    assert {value.device.type for value in tensors} == {"meta"}
    engine.close()


class Scaled(torch.nn.Module):
    """Notes where everything is that a call meets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.seen: set[str] = set()

    def forward(self, x: Any, n: Any) -> Any:
        self.seen |= {tensor.device.type for tensor in (x, n, self.weight, self.count)}
        return x * self.weight + n


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_inputs_parameters_and_buffers_of_a_layer_go_to_the_device(device: str) -> None:
    layer = Scaled()
    implementation = Implementation("torch", "Scaled", "", Span(1, 1, 1, 2), live=layer)
    values = {"x": np.ones(3), "n": np.arange(3), "weight": np.ones(3), "count": np.array(0)}
    subject = TorchSubject(SubjectRequest(implementation, values, "float64", "float64"), device)
    assert subject._module.seen == {device}
    assert [output.shape for output in subject.outputs] == [(3,)]
    assert layer.weight.device.type == "cpu"  # the user's own stays where it is
    assert layer.weight.dtype == torch.float32
    subject.close()


def test_products_are_full_unless_asked_otherwise_and_settings_are_put_back() -> None:
    products = torch.backends.cuda.matmul

    def settings() -> list[object]:
        halves = products.allow_fp16_reduced_precision_reduction, products.allow_tf32
        return [torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, *halves]

    before = settings()
    for precision, there in (
        ("full", ["highest", False, False, False]),
        ("tf32", ["high", True, True, True]),
    ):
        with placed(Placement("cpu:0", precision)):
            assert settings() == there
        assert settings() == before


def test_a_torch_without_cuda_says_so() -> None:
    engine = TorchEngine()
    engine.place(Placement("cuda"))
    with pytest.raises(EngineFault, match=r"PyTorch .* is built (without|for) CUDA .*finds 0 GPUs"):
        engine.load()
    with pytest.raises(EngineFault, match="finds 0 GPUs"), engine.plainly():  # as `check` does
        pass


FROZEN = """
import torch
torch.backends.disable_global_flags()
from gradcheck_cli import check
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.torch.device_setup import placed
assert check(torch.sin, torch.tensor([0.5])).passed
for precision in ("full", "tf32"):
    with placed(Placement("cpu:0", precision)):
        assert torch.backends.cudnn.allow_tf32 == (precision == "tf32")
assert torch.backends.cudnn.allow_tf32
"""


def test_settings_that_pytorch_has_frozen_are_left_to_its_own_context_manager() -> None:
    subprocess.run([sys.executable, "-c", FROZEN], check=True)
