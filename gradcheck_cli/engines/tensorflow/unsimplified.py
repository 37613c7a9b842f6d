"""XLA without its algebraic simplifier. TensorFlow reads the flags of XLA once in a process, so
this stage has one of its own for each question."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gradcheck_cli.domain.evaluation import Evaluation, Problem
from gradcheck_cli.engines.base import make
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.subject import Call, CallResult, SubjectRequest

_ENGINE = "gradcheck_cli.engines.tensorflow.engine:TensorFlowXlaEngine"
_FLAG = "--xla_disable_hlo_passes=algsimp"
_QUESTION, _ANSWER = "question", "answer"


def evaluated(problem: Problem) -> Evaluation:
    """A formula's derivatives. Raises Unsupported."""
    found: Evaluation = _asked(problem)
    return found


def ran(request: SubjectRequest, wrt: Sequence[str], call: Call) -> CallResult:
    """A call of a layer, of which these leaves are differentiated. Raises Unsupported."""
    found: CallResult = _asked((request, tuple(wrt), call))
    return found


def _asked(question: object) -> Any:
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
        raise Unsupported("XLA without its algebraic simplifier runs on the CPU only")
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}".strip()
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    with TemporaryDirectory() as name, off_the_clock():
        folder = Path(name)
        try:
            (folder / _QUESTION).write_bytes(pickle.dumps(question))
            subprocess.run(
                (sys.executable, "-P", "-m", __name__, name),
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
            return pickle.loads((folder / _ANSWER).read_bytes())
        except (pickle.PicklingError, AttributeError, TypeError) as error:  # a layer in memory
            raise Unsupported(f"another process cannot be handed this layer: {error}") from error
        except subprocess.CalledProcessError as error:
            words = error.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Unsupported(words[-1] if words else str(error)) from error


def answer(folder: Path) -> None:
    """Answers the question in the folder, in the process that was started for it."""
    engine = make(_ENGINE)
    engine.load()
    question = pickle.loads((folder / _QUESTION).read_bytes())
    found: Evaluation | CallResult
    if isinstance(question, Problem):
        found = engine.evaluate(question)
    else:
        request, wrt, call = question
        with surroundings(), on_the_path(request.implementation):
            subject = engine.subject(request)
            subject.differentiate(wrt)
            found = subject.run(call)
    (folder / _ANSWER).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    answer(Path(sys.argv[1]))
