"""The subjects of one problem: the layer in the dtype that is judged, and in the highest."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.callables.subject import Subject, SubjectRequest


class Subjects:
    """Binds the layer to the inputs of a problem, rounded to its dtype."""

    def __init__(self, engine: Engine, problem: LayerProblem) -> None:
        self._engine = engine
        self._problem = problem
        fmt = FORMATS[problem.dtype]
        self._inputs = {
            name: fmt.round(entry.value) if entry.value.dtype.kind == "f" else entry.value
            for name, entry in problem.spec.points[problem.point].items()
        }

    def bound(self, dtype: str, values: Mapping[str, Array] | None = None) -> Subject:
        """The layer in `dtype`, with other `values` for some of its inputs. Raises what the layer
        raises."""
        problem = self._problem
        request = SubjectRequest(
            problem.implementation,
            {**self._inputs, **(values or {})},
            dtype,
            problem.dtype,
            tuple(problem.spec.wrt) or None,
            problem.seed,
        )
        return self._engine.subject(request)

    def highest(self) -> Subject:
        """The layer in float64, or in the problem's dtype where it does not run there."""
        if self._problem.dtype == "float64":
            return self.bound("float64")
        try:
            wide = self.bound("float64")
        except Exception:
            return self.bound(self._problem.dtype)
        if {output.dtype for output in wide.outputs} == {"float64"}:
            return wide
        wide.close()
        return self.bound(self._problem.dtype)
