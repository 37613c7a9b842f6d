"""A program differentiated by computer algebra, as equations to read."""

from __future__ import annotations

from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Equation:
    """`left = right`; for a step, also the origin of the right-hand side: `left = origin = right`.
    All three are texts in one notation."""

    left: str
    right: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Equations that belong together; `more` others of their kind are not shown."""

    title: str
    equations: tuple[Equation, ...]
    more: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The value and derivatives of one program, with the steps between them if requested."""

    sections: tuple[Section, ...]
