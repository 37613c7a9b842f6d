"""TensorFlow, eagerly: GradientTape for reverse, `tf.autodiff.ForwardAccumulator` for forward."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.device_setup import tensorflow_placed
from gradcheck_cli.engines.kit.framework import Pushed, Taped
from gradcheck_cli.engines.kit.lowerings import Missing, bound
from gradcheck_cli.engines.kit.startup import only_tensorflow
from gradcheck_cli.engines.kit.walker import OPERATORS, Call, Rule, custom_gradients
from gradcheck_cli.engines.tensorflow.ops import TABLE

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest
    from gradcheck_cli.engines.tensorflow.recorder import TensorFlowRecorder

_THREADS = 2  # several engines share the machine, and specs are small
_LACKS = (  # how TensorFlow says that an op has no kernel, or no gradient, for a dtype
    "is not in the list of allowed values",
    "not in list of allowed values",
    "Could not find device for node",
    "No OpKernel was registered",
    "gradient registry has no entry for",
    "does not support matrices of type",
)


class TensorFlowEngine(LoweredEngine):
    """TensorFlow, on the CPU or on a GPU, in eager mode."""

    capabilities = Capabilities(
        name="tensorflow",
        distributions=("tensorflow", "tensorflow-cpu", "tf-nightly"),
        install="pip install 'gradcheck-cli[tensorflow]'",
        layers=True,
        devices=("cpu", "cuda"),
    )
    table = TABLE

    def __init__(self) -> None:
        super().__init__()
        self._settings = ExitStack()

    def load(self) -> str:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ["KERAS_BACKEND"] = "tensorflow"  # for layers; Keras is imported by their modules
        if self.placement.kind != "cuda":  # before the import: looking for one takes time
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        with only_tensorflow():
            import tensorflow as tf

        # another version may have other names for what that needs: then it is only slower
        with suppress(ImportError, AttributeError):
            from gradcheck_cli.engines.tensorflow.startup import find_functions_faster

            find_functions_faster()
        with suppress(RuntimeError):  # where TensorFlow has computed already, its threads are there
            tf.config.threading.set_intra_op_parallelism_threads(_THREADS)
            tf.config.threading.set_inter_op_parallelism_threads(_THREADS)
        if self.placement != HOST:
            self._settings.enter_context(tensorflow_placed(tf, self.placement))
        self._calls = {**OPERATORS, **bound(self.table, tf)}
        return str(tf.__version__)

    def close(self) -> None:
        self._settings.close()
        super().close()

    def framework(self, dtype: str) -> _TensorFlow:
        return _TensorFlow(self._calls, dtype)

    def plainly(self) -> AbstractContextManager[None]:
        import tensorflow as tf

        return nullcontext() if self.placement == HOST else tensorflow_placed(tf, self.placement)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """An accumulator differentiates the operations inside a `tf.custom_gradient`, whatever its
        rule says: what it gives is not the derivative that the user states."""
        custom = next(iter(custom_gradients(program)), None)
        if mode.startswith("forward") and custom is not None:
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

        words = str(error)
        return isinstance(error, tf.errors.UnimplementedError | NotImplementedError) or any(
            phrase in words for phrase in _LACKS
        )


class _TensorFlow(Taped):
    """TensorFlow in one dtype (`framework.Framework`)."""

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str) -> None:
        import tensorflow as tf

        self._tf = tf
        self._calls = table
        self._recorder: TensorFlowRecorder | None = None
        self.kinds = {"float": tf.as_dtype(dtype), "int": tf.int64, "bool": tf.bool}

    def lowering(self, op: str) -> Call | Missing | None:
        return self._calls.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self._tf.constant(value, dtype=self.kinds[kind])

    def cast(self, array: Any, kind: str) -> Any:
        return self._tf.cast(array, self.kinds[kind])

    def array(self, values: Array) -> Any:
        values = np.asarray(values)
        if values.dtype.kind != "f":
            return self._tf.constant(values)
        return self._tf.constant(values.astype(self.kinds["float"].as_numpy_dtype))

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        plain: Array = array.numpy()
        return np.asarray(plain if plain.dtype.kind in "biu" else plain.astype(np.float64))

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    @contextmanager
    def tape(self, sources: Sequence[Any]) -> Iterator[tuple[_Tape, list[Any]]]:
        with self._tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(list(sources))
            yield _Tape(self._tf, tape), list(sources)

    @contextmanager
    def tangent(self, primal: Any, tangent: Any) -> Iterator[tuple[Any, Pushed]]:
        with self._tf.autodiff.ForwardAccumulator(primal, tangent) as accumulator:
            yield primal, accumulator.jvp

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return parameter - rate * gradient

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.tensorflow.recorder import TensorFlowRecorder

        self._recorder = TensorFlowRecorder()
        return self._recorder

    def custom(self, rule: Rule) -> Call:
        def stated(*args: Any) -> tuple[Any, Callable[[Any], list[Any]]]:
            # A tape calls a stated gradient by itself: a recorder must be told for which node.
            pull: Callable[..., list[Any]] = rule.pull
            if self._recorder is not None:
                pull = self._recorder.on_behalf_of_this(pull)
            return rule.value(*args), lambda upstream: pull(upstream, args)

        stated.__name__ = rule.name
        made: Call = self._tf.custom_gradient(stated)
        return made


class _Tape:
    """A persistent GradientTape."""

    def __init__(self, tf: Any, tape: Any) -> None:
        self._tf = tf
        self._tape = tape

    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        # An enclosing tape or accumulator records this by itself, so `again` asks for nothing more.
        grads = self._tape.gradient(target, list(sources), output_gradients=cotangent)
        # Indexing may give IndexedSlices, which are a gradient in another notation.
        return [None if grad is None else self._tf.convert_to_tensor(grad) for grad in grads]
