"""The arguments of one call of `check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.records import dataclass

Domain = Mapping[str, tuple[float, float]] | tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The arguments of `api.check`. `settings` has the settings that a spec may have, too, by
    key."""

    layer: Any
    inputs: Sequence[Any]
    named: Mapping[str, Any]
    kwargs: Mapping[str, Any]
    args: Sequence[Any]
    settings: Mapping[str, Any]
    backward: Callable[..., Any] | None
    model: str | None
    surrogate: Mapping[str, str] | None
    by_design: Sequence[Mapping[str, str]]
    kinds: Mapping[str, str]
    engines: Sequence[str]
    domain: Domain
    seed: int
    name: str | None

    @property
    def names_inputs(self) -> bool:
        """Whether an option says something about an input by its name."""
        of_one = isinstance(self.domain, Mapping) or self.kinds or "wrt" in self.settings
        return self.model is not None or bool(of_one)

    def bounds(self, name: str) -> tuple[float, float] | None:
        """The domain of one input, or None."""
        if isinstance(self.domain, Mapping):
            return self.domain.get(name)
        return self.domain
