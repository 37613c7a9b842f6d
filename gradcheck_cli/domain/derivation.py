"""A program differentiated by computer algebra, as equations to read."""

from __future__ import annotations

from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Equation:
    """`left = right`, and where it is a step also what the right-hand side came from: `left =
    origin = right`. All three are texts of one notation."""

    left: str
    right: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Equations that belong together; `more` of their kind are not shown."""

    title: str
    equations: tuple[Equation, ...]
    more: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Derivation:
    """Value and derivatives of one program, and the steps between them where they were asked
    for."""

    sections: tuple[Section, ...]
