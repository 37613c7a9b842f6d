"""gradcheck: verify gradients, entry by entry."""

from typing import TYPE_CHECKING, Any

from gradcheck_cli.version import VERSION

if TYPE_CHECKING:
    from gradcheck_cli.domain.errors import IgnoredArgumentWarning
    from gradcheck_cli.testing.api import (
        CheckReport,
        GradientError,
        UsageError,
        assert_gradients,
        check,
    )

__all__ = [
    "CheckReport",
    "GradientError",
    "IgnoredArgumentWarning",
    "UsageError",
    "assert_gradients",
    "check",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    """The Python API, imported when it is requested: the command line starts without it."""
    if name == "IgnoredArgumentWarning":  # a filter of warnings names it before a test runs
        from gradcheck_cli.domain.errors import IgnoredArgumentWarning

        return IgnoredArgumentWarning
    if name in __all__:
        from gradcheck_cli.testing import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
