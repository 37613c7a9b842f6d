"""The exceptions of engines: recognised failures, and the node at which one happened."""

from __future__ import annotations

from gradcheck_cli.domain.evaluation import FailureKind
from gradcheck_cli.domain.place import Place


class EngineFault(Exception):
    """A failure that the engine recognises. Its attributes are those of `Failure`."""

    kind: FailureKind = "raised"
    detail: str = ""
    place: Place | None = None


class Unsupported(EngineFault):
    """The framework lacks this operation, dtype or mode. The message names it."""

    kind: FailureKind = "unsupported"


class SpecMistake(EngineFault):
    """A key of the spec does not fit the layer. The message says how, `detail` what would fit."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class WrongKind(EngineFault):
    """A gradient has another shape or dtype than its leaf. The message names both."""

    kind: FailureKind = "wrong-shape"


class WrongShape(WrongKind):
    """A custom gradient has another shape than its argument."""

    def __init__(
        self, function: str, argument: str, expected: tuple[int, ...], given: tuple[int, ...]
    ) -> None:
        super().__init__(
            f"the custom gradient of `{function}` for its argument `{argument}` has shape "
            f"{given}, but `{argument}` has shape {expected}"
        )
        self.expected = expected
        self.given = given


class NodeFault(Exception):
    """The framework raised `__cause__` while node `index` of the program was running."""

    def __init__(self, index: int) -> None:
        super().__init__(f"node {index}")
        self.index = index
