"""XLA without its algebraic simplifier. TensorFlow reads the flags of XLA once in each process, so
this stage has a process of its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import Event, Timer
from typing import IO, Any

from gradcheck_cli.domain.evaluation import Evaluation, Problem
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_ENGINE = "gradcheck_cli.engines.tensorflow.engine:TensorFlowXlaEngine"
_FLAG = "--xla_disable_hlo_passes=algsimp"
LIMIT_S = 60.0
"""The longest wait for an answer. The first answer takes 5 to 10 s, for the import of TensorFlow
and the work of XLA. Without the simplifier some programs never end, such as `eigh` in float64."""


def evaluated(problem: Problem) -> Evaluation:
    """A formula's derivatives. Raises Unsupported if the process has no answer."""
    with unsimplified_process(None) as process:
        return process.ask(problem)


@contextmanager
def unsimplified_process(request: SubjectRequest | None) -> Iterator[Elsewhere]:
    """A process for this stage, with the layer of a request, if any. It starts with its first
    question."""
    with TemporaryFile() as said:
        process = Elsewhere(request, said)
        try:
            yield process
        finally:
            process.close()


class Elsewhere:
    """The process of `unsimplified_process`. `said` is a file for its standard error."""

    def __init__(self, request: SubjectRequest | None, said: IO[bytes]) -> None:
        self._request = request
        self._process: subprocess.Popen[bytes] | None = None
        self._said = said

    def ran(self, wrt: Sequence[str], what: str, *args: Any) -> Any:
        """The result of this method of the layer's subject, differentiated with respect to the
        leaves `wrt`. Raises Unsupported."""
        return self.ask((tuple(wrt), what, args))

    def ask(self, question: object) -> Any:
        """The answer of the process. Raises Unsupported if there is none."""
        if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
            raise Unsupported("XLA without its algebraic simplifier runs on the CPU only")
        try:
            asked = pickle.dumps(question)
            request = pickle.dumps(self._request) if self._process is None else b""
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # a layer in memory
            raise Unsupported(f"another process cannot be handed this layer: {error}") from error
        with off_the_clock():
            process = self._process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            is_late = Event()

            def give_up() -> None:
                is_late.set()
                process.kill()

            end = Timer(LIMIT_S, give_up)
            end.daemon = True
            end.start()
            try:
                process.stdin.write(request + asked)
                process.stdin.flush()
                answer, words = pickle.load(process.stdout)
            except (OSError, EOFError) as error:
                if is_late.is_set():
                    raise Unsupported(f"it gave no answer within {LIMIT_S:g} s") from error
                self._said.seek(0)
                said = self._said.read().decode("utf-8", "replace").strip().splitlines()
                raise Unsupported(said[-1] if said else "its process died") from error
            finally:
                end.cancel()
        if words:
            raise Unsupported(words)
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        flags = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}".strip()
        return subprocess.Popen(
            (sys.executable, "-P", "-m", __name__),
            env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def answer(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer all questions in the process that was started for them."""
    engine = make(_ENGINE)
    engine.load()
    request: SubjectRequest | None = pickle.load(questions)
    subject: Subject | None = None
    while True:
        try:
            question = pickle.load(questions)
        except EOFError:
            return
        try:
            if request is None:
                reply: tuple[Any, str] = engine.evaluate(question), ""
            else:
                with surroundings(), on_the_path(request.implementation):
                    subject = subject or engine.subject(request)
                    reply = _of_layer(subject, *question), ""
        except Exception as error:  # the stage has no result
            reply = None, f"{type(error).__name__}: {error}"
        answers.write(pickle.dumps(reply))
        answers.flush()


def _of_layer(subject: Subject, wrt: Sequence[str], what: str, args: Sequence[Any]) -> Any:
    subject.differentiate(wrt)
    return getattr(subject, what)(*args)


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as answering:
        os.dup2(2, 1)  # a layer's prints must not mix with answers
        answer(sys.stdin.buffer, answering)
