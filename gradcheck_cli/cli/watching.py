"""`gradcheck run --watch`: runs again whenever a file changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from gradcheck_cli.cli.signals import SIGNALLED
from gradcheck_cli.cli.streams import talk
from gradcheck_cli.domain.errors import GradcheckError
from gradcheck_cli.specfile.files import is_skipped_folder

POLL_S = 0.5
_WATCHED = (".yaml", ".yml", ".py", ".hpp", ".h", ".hh", ".hxx", "pyproject.toml")


def watch(run: Callable[[], int], paths: Iterable[str]) -> int:
    """Call `run` now and after each change of specs, code and settings, at and below the working
    folder and the paths. Ctrl-C ends it, with the exit code of the last run."""
    places = [os.curdir, *paths]
    while True:
        before = snapshot(places)
        code = _run_once(run)
        if code > SIGNALLED:
            return code
        talk("watching for changes; Ctrl-C ends it")
        try:
            while not (changed := sorted(dict(before.items() ^ snapshot(places).items()))):
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            return code
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        talk(f"changed: {changed[0]}{more}")


def _run_once(run: Callable[[], int]) -> int:
    """Run once. A mistake in the settings ends the run, but not the watch."""
    try:
        return run()
    except GradcheckError as error:
        talk(f"error: {error}", "bold red")
        return error.exit_code


def snapshot(places: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The times and sizes of all watched files. A file that vanishes meanwhile is left out."""
    times = {}
    for path in _files(places):
        try:
            status = os.stat(path)
        except OSError:
            continue
        times[path] = status.st_mtime_ns, status.st_size
    return times


def _files(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        if not os.path.isdir(place):
            yield place
        for root, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not is_skipped_folder(root, name)]
            yield from (
                os.path.normpath(os.path.join(root, name))
                for name in names
                if name.endswith(_WATCHED)
            )
