"""YAML -> Spec, with positions: every mistake of a file at once, each with its place.

read(path, text=None, *, seed=0) -> (specs, errors)
expand(paths) -> (files, errors, skipped)
schema() -> JSON Schema
"""

from gradcheck_cli.specfile.files import expand
from gradcheck_cli.specfile.model import schema
from gradcheck_cli.specfile.reader import read

__all__ = ["expand", "read", "schema"]
