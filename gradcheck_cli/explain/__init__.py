"""Explaining: which operation is to blame for a finding, and what a wrong gradient looks like."""

from gradcheck_cli.explain.findings import explain

__all__ = ["explain"]
