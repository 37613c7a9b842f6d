"""Whether what a worker sent answers what it was asked."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Failure, Problem, TrainingProblem
from gradcheck_cli.domain.fixes import FixRequest, Screened
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines import answers
from gradcheck_cli.engines.errors import EngineFault

_KINDS: dict[type, tuple[type, ...]] = {
    TruthRequest: (Truth, Failure),
    FixRequest: (Screened, Failure),
    LayerProblem: (LayerAnswer,),
}


def answering(answer: Any, question: object, engine: str) -> Any:
    """The answer. Raises EngineFault where it is of another kind or about something else."""
    if isinstance(question, Problem):
        return answers.evaluation(answer, question, engine)
    if isinstance(question, TrainingProblem):
        return answers.training(answer, question, engine)
    kinds = _KINDS.get(type(question), (Failure,))  # of what is no question there is but that
    if not isinstance(answer, kinds):
        raise EngineFault(f"it answers with a {type(answer).__name__}, not a {kinds[0].__name__}")
    return answer
