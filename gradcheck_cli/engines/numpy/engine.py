"""NumPy, which differentiates nothing itself: it runs pairs of functions that users wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, Problem, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.adapter import AnsweringEngine
from gradcheck_cli.engines.kit.modes import Answer

if TYPE_CHECKING:
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_NONE = "the engine numpy checks hand-written pairs of forward and backward, not formulas"


class NumpyEngine(AnsweringEngine):
    """Runs a forward and a backward function, given under `implementations`."""

    capabilities = Capabilities(
        name="numpy",
        distributions=("numpy",),
        install="pip install numpy",
        modes=("reverse",),
        dtypes=("float16", "float32", "float64"),
        orders=(1,),
        by_default=False,
        remark="runs hand-written forward and backward functions in NumPy, under "
        "`implementations`; no formulas",
        layers=True,
        kernels="gradcheck_cli.engines.numpy.kernels",
    )

    def load(self) -> str:
        import numpy as np

        return np.__version__

    def operations(self) -> frozenset[str]:
        return frozenset()

    def refuses(self, program: Program, mode: Mode) -> str | None:
        return _NONE

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        raise Unsupported(_NONE)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        raise Unsupported(_NONE)

    def subject(self, request: SubjectRequest) -> Subject:
        if request.dtype not in self.capabilities.dtypes:
            raise Unsupported(f"NumPy has no {request.dtype}")
        from gradcheck_cli.engines.numpy.layer import NumpySubject

        return NumpySubject(request)
