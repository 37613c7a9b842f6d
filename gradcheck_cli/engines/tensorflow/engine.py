"""Eager TensorFlow: GradientTape for reverse mode, `tf.autodiff.ForwardAccumulator` for forward
mode."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcheck_cli.domain.evaluation import Mode, Problem, modes_in
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.kit.walker import custom_gradients
from gradcheck_cli.engines.tensorflow.compiler import (
    GRAPH,
    STAGES,
    UNSIMPLIFIED,
    CompiledTensorFlow,
)
from gradcheck_cli.engines.tensorflow.device_setup import placed
from gradcheck_cli.engines.tensorflow.framework import TensorFlow
from gradcheck_cli.engines.tensorflow.ops import TABLE
from gradcheck_cli.engines.tensorflow.startup import only_tensorflow

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_THREADS = 2  # several engines share the machine, and specs are small


class TensorFlowEngine(LoweredEngine):
    """TensorFlow on the CPU or on a GPU, in eager mode."""

    capabilities = Capabilities(
        name="tensorflow",
        distributions=("tensorflow", "tensorflow-cpu", "tf-nightly"),
        install="pip install 'gradcheck-cli[tensorflow]'",
        layers=True,
        orders=(1, 2, 3),
        kernels="gradcheck_cli.engines.tensorflow.kernels",
        devices=("cpu", "cuda"),
    )
    table = TABLE
    placed = staticmethod(placed)
    lacking = (
        "is not in the list of allowed values",
        "not in list of allowed values",
        "Could not find device for node",
        "No OpKernel was registered",
        "gradient registry has no entry for",
        "does not support matrices of type",
        "ndims must be >= 2",
        "has different ndims",
        "Detected unsupported operations when trying to compile graph",
    )

    def load(self) -> str:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ["KERAS_BACKEND"] = "tensorflow"  # for layers; Keras is imported by their modules
        if self.placement.kind != "cuda":  # before the import, which would search for a GPU
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        with only_tensorflow():
            import tensorflow as tf

        with suppress(RuntimeError):  # TensorFlow may have started its threads already
            tf.config.threading.set_intra_op_parallelism_threads(_THREADS)
            tf.config.threading.set_inter_op_parallelism_threads(_THREADS)
        return self._loaded(tf)

    def framework(self, dtype: str) -> TensorFlow:
        return TensorFlow(self._calls, dtype)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Why forward mode is impossible, or None. An accumulator differentiates the operations
        inside a `tf.custom_gradient`, whatever its rule says, so its result is not the user's
        derivative."""
        custom = next(iter(custom_gradients(program)), None)
        if "forward" in modes_in(mode) and custom is not None:
            return (
                f"TensorFlow's forward mode ignores the custom gradient of `{custom.name}`: "
                "it differentiates the operations inside it"
            )
        return None

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject

        return TensorFlowSubject(request)

    def lacks(self, error: BaseException) -> bool:
        import tensorflow as tf

        return isinstance(error, tf.errors.UnimplementedError) or super().lacks(error)


class TensorFlowXlaEngine(TensorFlowEngine):
    """TensorFlow with every derivative compiled as a whole by `tf.function(jit_compile=True)`."""

    capabilities = replace(
        TensorFlowEngine.capabilities,
        name="tensorflow-xla",
        by_default=False,
        kernels="",
        stages=STAGES,
    )

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        if problem.stage != UNSIMPLIFIED:
            return super().differentiate(problem, answer)
        from gradcheck_cli.engines.tensorflow.unsimplified import evaluated

        evaluation = evaluated(replace(problem, stage=""))
        if evaluation.failure is not None:
            raise Unsupported(evaluation.failure.message)
        answer.output, answer.gradients = evaluation.output, dict(evaluation.gradients)
        answer.forward, answer.backward = evaluation.forward, evaluation.backward

    def framework(self, dtype: str) -> TensorFlow:
        if self.stage == NO_COMPILER:
            return super().framework(dtype)
        return CompiledTensorFlow(self._calls, dtype, xla=self.stage != GRAPH)

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject

        return TensorFlowSubject(request, compiled=request.dtype == request.rounding)
