"""Scripts that reproduce findings. A script is kept only if it ran and printed the numbers of its
finding."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gradcheck_cli.cli.outputs import make_folder
from gradcheck_cli.cli.streams import talk, write_reason
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import Event, SpecFinished

if TYPE_CHECKING:
    from gradcheck_cli.domain.report import Finding
    from gradcheck_cli.domain.spec import Spec
    from gradcheck_cli.report.repro.layer_code import NoScript

LIMIT_S = 300.0
NAMED = 3  # missing scripts that are named for each reason; the others are counted


class NotShown(Exception):
    """A script ran, but does not show its finding. The message says why."""


class Scripts:
    """A listener that writes a script for each finding of a run to a folder. Raises UsageError if
    the folder cannot be created."""

    def __init__(self, folder: str, seed: int) -> None:
        self._folder = Path(folder)
        self._seed = seed
        self._specs: dict[tuple[str, str], Spec] = {}
        self._findings: list[tuple[Finding, Spec]] = []
        make_folder(folder)

    def record(self, specs: Iterable[Spec]) -> Iterator[Spec]:
        """Record the specs, from which the scripts are made."""
        for spec in specs:
            self._specs[spec.source.path, spec.name] = spec
            yield spec

    def hear(self, event: Event) -> None:
        if isinstance(event, SpecFinished):
            result = event.result
            spec = self._specs.pop((result.source.path, result.spec), None)
            if spec is not None:
                self._findings += ((finding, spec) for finding in result.findings)

    def end(self) -> None:
        """Write the scripts, and print how many there are, and why others are missing."""
        own = [(finding, spec) for finding, spec in self._findings if finding.engine]
        made = [
            self._script_of(finding, spec) for finding, spec in own
        ]  # no thread may call ast.parse
        names = _names(own)
        found = sum(isinstance(text, str) for text in made)
        if found > 1:
            talk(f"{self._folder}: running {found} scripts, which takes seconds each")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            try:
                failures = list(pool.map(self._check_script, own, made, names))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # wait for those that run, alone
                raise
        count = failures.count(None)
        scripts = "1 script" if count == 1 else f"{count} scripts"
        were = "was run, and shows its" if count == 1 else "were run, and each shows its"
        talk(f"{self._folder}: {scripts} {were} finding" if count else f"{self._folder}: no script")
        without: dict[str, list[str]] = {}
        for name, failure in zip(names, failures, strict=True):
            if failure is not None:
                without.setdefault(failure, []).append(name)
        for failure, missing in without.items():
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            talk(f"no script {', '.join(missing[:NAMED])}{more}: {failure}")

    def _script_of(self, finding: Finding, spec: Spec) -> str | NoScript:
        """The script of a finding, or the reason why there is none."""
        from gradcheck_cli.report.repro.layer_code import NoScript
        from gradcheck_cli.report.repro.script import script

        try:
            return script(finding, spec, self._seed)
        except NoScript as error:
            return error

    def _check_script(
        self, pair: tuple[Finding, Spec], text: str | NoScript, name: str
    ) -> str | None:
        """Write and run the script of a finding. Returns the reason if there is none."""
        if not isinstance(text, str):
            return str(text)
        try:
            _keep(text, pair[0], self._folder / name)
        except NotShown as error:
            return str(error)
        return None


def write(finding: Finding, spec: Spec, path: Path, seed: int) -> None:
    """Write the script, which is kept if it shows the finding. Raises NoScript, NotShown and
    UsageError."""
    from gradcheck_cli.report.repro.script import script

    _keep(script(finding, spec, seed), finding, path)


def _keep(text: str, finding: Finding, path: Path) -> None:
    """Run a script, and write it if it shows the finding. Raises NotShown and UsageError."""
    from gradcheck_cli.report.repro.shown import shows

    try:
        with TemporaryDirectory() as folder:
            tried = Path(folder) / path.name
            tried.write_text(text, "utf-8")
            ran = _run(tried, finding.engine == "eigen")
    except subprocess.TimeoutExpired as error:
        raise NotShown(f"it ran for {LIMIT_S:.0f} s") from error
    if ran.returncode == 1 and shows(ran.stdout, finding):
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"cannot write to {path}: {write_reason(error)}") from error
        return
    said = [line for line in (ran.stdout + ran.stderr).strip().splitlines() if line.strip()]
    numbers = [line for line in said if line.startswith("computed:")]
    last = numbers[0] if numbers else said[-1] if said else "it printed nothing"
    raise NotShown(f"the framework alone does not show it: {last.strip()}")


def _run(path: Path, is_cpp: bool) -> subprocess.CompletedProcess[str]:
    """Run a script; a C++ file is compiled first."""
    run = partial(
        subprocess.run,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "JAX_TRACEBACK_FILTERING": "off"},  # its last line is the error's
    )
    if not is_cpp:
        return run([sys.executable, str(path)])
    from gradcheck_cli.engines.eigen.compiling import program_command

    with TemporaryDirectory() as folder:
        program = str(Path(folder) / "repro")
        made = run(program_command(str(path), program))
        return made if made.returncode else run([program])


def _names(pairs: Iterable[tuple[Finding, Spec]]) -> list[str]:
    """File names that describe the scripts: `loss-torch-float32-reverse-x-GC301.py`. Findings with
    equal names are numbered."""
    counts: Counter[str] = Counter()
    names = []
    for finding, spec in pairs:
        point = None if finding.point is None else f"point{finding.point}"
        parts = (spec.name, finding.engine, finding.dtype, finding.mode, finding.input, point)
        words = [re.sub(r"[^\w.]+", "_", part) for part in parts if part]
        stem = "-".join([*words, finding.code])
        counts[stem] += 1
        number = f"-{counts[stem]}" if counts[stem] > 1 else ""
        names.append(f"{stem}{number}{'.cpp' if finding.engine == 'eigen' else '.py'}")
    return names
