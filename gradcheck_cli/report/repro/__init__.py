"""Findings as scripts that need nothing but the framework; `script` writes one."""
