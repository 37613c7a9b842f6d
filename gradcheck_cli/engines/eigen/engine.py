"""Eigen's AutoDiffScalar: forward mode in C++ templates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.evaluation import Gradient, Problem, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import COMPILER, Capabilities
from gradcheck_cli.engines.eigen.rows import NONE, TABLE
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from gradcheck_cli.engines.kit.adapter import AnsweringEngine
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.walker import round_constant, rounded

if TYPE_CHECKING:
    from gradcheck_cli.engines.eigen.compiling import Library
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest


class EigenEngine(AnsweringEngine):
    """Runs `unsupported/Eigen/AutoDiff`, compiled with the machine's compiler."""

    capabilities = Capabilities(
        name="eigen",
        distributions=("cmeel-eigen",),
        install="pip install 'gradcheck-cli[eigen]'",
        modes=("forward",),
        dtypes=("float32", "float64"),
        orders=(1,),
        tools=(COMPILER,),
        by_default=False,
        layers=True,
        remark="C++ over Eigen::AutoDiffScalar; a program is compiled at its first use, which "
        "takes seconds, and kept in the user's cache directory",
    )

    def __init__(self) -> None:
        self._libraries: dict[tuple[Any, ...], tuple[Program, Library]] = {}

    def load(self) -> str:
        from importlib import metadata

        from gradcheck_cli.engines.eigen.compiling import headers

        headers()
        return metadata.version("cmeel-eigen")

    def operations(self) -> frozenset[str]:
        return TABLE

    def remarks(self) -> Mapping[str, str]:
        return NONE

    def subject(self, request: SubjectRequest) -> Subject:
        if request.dtype not in self.capabilities.dtypes:
            raise Unsupported(f"Eigen's scalars are float and double, not {request.dtype}")
        from gradcheck_cli.engines.eigen.layer import EigenSubject

        return EigenSubject(request)

    def close(self) -> None:
        self._libraries.clear()

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        library = self._library(problem.program, problem.values, problem.dtype, problem.rounding)
        shape = problem.program.result.shape
        for name in problem.wrt:
            columns = (problem.projection.columns or {}).get(name)
            output, tangents = library.run(problem.values, name, columns)
            answer.forward += max(math.ceil(len(tangents) / 8), 1)
            answer.output = output.astype(np.float64).reshape(shape)
            answer.gradients[name] = Gradient(tangents.T.astype(np.float64), problem.dtype)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        library = self._library(problem.program, problem.values, problem.dtype, problem.rounding)
        real = np.dtype(problem.dtype).type
        rate = real(round_constant(float(problem.rate), problem.rounding, False))
        values = dict(problem.values)
        for _ in range(problem.steps + 1):
            columns = {name: library.run(values, name, None) for name in problem.parameters}
            losses.append(columns[problem.parameters[0]][0].astype(np.float64).reshape(()))
            for name, (_, tangents) in columns.items():
                x = values[name].astype(problem.dtype)
                path[name].append(values[name])
                values[name] = np.asarray(x - rate * tangents.reshape(x.shape), dtype=np.float64)

    def _library(self, program: Program, values: Values, dtype: str, rounding: str) -> Library:
        from gradcheck_cli.engines.eigen.compiling import Library, compiled
        from gradcheck_cli.engines.eigen.diagnostics import CompileError
        from gradcheck_cli.engines.eigen.writing import write

        fixed = {name: array for name, array in values.items() if array.dtype.kind in "bi"}
        told = tuple(sorted((name, array.tobytes()) for name, array in fixed.items()))
        key = (id(program), dtype, rounding, told)
        if key not in self._libraries:  # keep the program, so that its id is not reused
            written = write(rounded(program, rounding), fixed, dtype)
            try:
                found = compiled(written.text)
            except CompileError as error:
                node = None if error.line is None else written.nodes.get(error.line)
                if node is None:
                    raise
                raise NodeFault(node) from error
            size = math.prod(program.result.shape)
            self._libraries[key] = program, Library(found.load(), written, dtype, size)
        return self._libraries[key][1]
