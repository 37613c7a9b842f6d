"""Explain findings: name the operation to blame, and the pattern of a wrong gradient."""

from gradcheck_cli.explain.findings import explain

__all__ = ["explain"]
