"""A mistake in a formula, as it is reported to the user."""

from __future__ import annotations

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class FormulaError:
    """GC904 (syntax), GC905 (unknown name), GC906 (shapes) or GC907 (nothing to differentiate)."""

    code: str
    message: str
    span: Span
    help: str = ""


class Problem(Exception):
    """A mistake without a place: it is raised deep inside, and caught where the place is known."""

    def __init__(self, message: str, help: str = "", code: str = Codes.FORMULA_SYNTAX) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help


class ShapeProblem(Problem):
    """Shapes that do not fit together."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message, help, Codes.SHAPE_MISMATCH)
