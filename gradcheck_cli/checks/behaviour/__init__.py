"""Checks of behaviour: a layer must agree with itself, so no truth is needed."""

from gradcheck_cli.checks.behaviour.checks import behave

__all__ = ["behave"]
