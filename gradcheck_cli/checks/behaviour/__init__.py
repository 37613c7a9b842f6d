"""How a layer behaves: what needs no truth, only that it agrees with itself."""

from gradcheck_cli.checks.behaviour.checks import behave

__all__ = ["behave"]
