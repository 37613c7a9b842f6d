"""Shared code of the drop-ins for the frameworks' own checks (`gradcheck_cli.torch`, `.jax`,
`.tensorflow`)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from gradcheck_cli.domain.errors import IgnoredArgumentWarning

NO_STEP = "differences choose their own steps, and each has its error bar"
_warned: set[str] = set()


def warn_once(given: Mapping[str, object], why: Mapping[str, str]) -> None:
    """Warns about each argument that is given (its value is true) but has no meaning here, once per
    process. A drop-in must call this directly: the warning points to the line that called the
    drop-in."""
    for name, value in given.items():
        if value and name not in _warned:
            words = f"`{name}` is ignored by gradcheck: {why[name]}"
            warnings.warn(words, IgnoredArgumentWarning, stacklevel=3)
            _warned.add(name)  # a filter that makes warnings errors does so at every call
