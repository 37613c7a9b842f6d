"""Changes since a git revision, and the specs that they affect."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradcheck_cli.cli.configuration import configuration_file
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.specfile.project_files import imported_files

if TYPE_CHECKING:
    from gradcheck_cli.domain.spec import Spec

_CODE = (".py", ".hpp", ".h", ".hh", ".hxx")


class Changes:
    """The files that differ from the common ancestor of a revision and this branch, including new
    and uncommitted ones. `left_out` counts the specs that the changes do not affect."""

    def __init__(self, revision: str) -> None:
        """Raises UsageError if git fails."""
        root = _git("rev-parse", "--show-toplevel").removesuffix("\n")
        since = _since(revision)
        names = _git("diff", "--name-only", "--no-renames", "-z", since, "--", cwd=root)
        names += _git("ls-files", "--others", "--exclude-standard", "-z", cwd=root)
        paths = {os.path.realpath(os.path.join(root, name)) for name in names.split("\0") if name}
        self._changed = paths
        self._code_is_gone = any(
            path.endswith(_CODE) and not os.path.exists(path) for path in paths
        )
        settings = configuration_file()
        self._all = settings is not None and os.path.realpath(settings) in paths
        self.left_out = 0

    def concerned(self, specs: Iterable[Spec]) -> Iterator[Spec]:
        """The specs of changed files, and those whose layers reach changed code. If a code file was
        deleted, it is unknown which layers reached it, so all layers are included. If the project's
        settings have changed, everything is."""
        for spec in specs:
            if self._concerns(spec):
                yield spec
            else:
                self.left_out += 1

    def _concerns(self, spec: Spec) -> bool:
        if self._all or os.path.realpath(spec.source.path) in self._changed:
            return True
        if not os.path.exists(spec.source.path):  # standard input
            return True
        if spec.implementations and self._code_is_gone:
            return True
        return any(
            not self._changed.isdisjoint(
                imported_files((layer.target, *layer.setup.imports), layer.folder)
            )
            for layer in spec.implementations
        )


def _since(revision: str) -> str:
    """The common ancestor of the revision and this branch; without one, the revision itself."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    commit = _git(*asked, silence=f"there is no commit `{revision}`").strip()
    try:
        return _git("merge-base", commit, "HEAD").strip()
    except UsageError:  # unrelated histories
        return commit


def _git(*arguments: str, cwd: str | None = None, silence: str = "git failed") -> str:
    """The output of a git command. Raises UsageError with git's message, or with `silence` if git
    printed none."""
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=cwd, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise UsageError(
            "--changed-since needs git", "without it, everything is checked"
        ) from error
    if done.returncode:
        words = os.fsdecode(done.stderr).strip().splitlines()
        said = f"git says: {words[0].removeprefix('fatal: ')}" if words else silence
        raise UsageError(f"--changed-since: {said}")
    return os.fsdecode(done.stdout)
