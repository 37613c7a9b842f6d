"""Findings as scripts that need the framework alone; `script` writes one."""
