"""Signals at random times of a run. It must end with the code of the signal, report what was
finished, and leave nothing running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.calling import environment
from tests.fuzz.driver import Finding, drawn
from tests.fuzz.layers import TOKEN, survivors

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
_STARTING_S = 1.5  # from the start of the process: before the first import, while workers start
_RUNNING_S = 1.0  # from the first verdict: while specs are read, evaluated and reported
_SPECS = 400
_LIMIT_S = 60.0
_SPEC = "inputs: {x: {shape: [60], distribution: normal, seed: 0}}\nmodel: sum(tanh(x) ** 2)\n"


class Signals:
    """The fuzzer of signals."""

    name = "signals"

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def __enter__(self) -> Signals:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def input(self, seed: int, index: int) -> tuple[signal.Signals, bool, float]:
        """The signal, whether it waits for the first verdict, and the seconds after that."""
        rng = drawn(seed, self.name, index)
        which = list(CODES)[int(rng.integers(len(CODES)))]
        running = bool(rng.random() < 0.6)
        return which, running, float(rng.uniform(0.0, _RUNNING_S if running else _STARTING_S))

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        for index in indices:
            which, running, after = self.input(seed, index)
            faults = self.faults(which, running, after)
            if faults:
                since = "the first verdict" if running else "the start"
                told = "; ".join(faults)
                yield Finding(index, f"{which.name} {after:.3f} s after {since}: {told}", _SPEC)

    def faults(self, which: signal.Signals, running: bool, after: float) -> list[str]:
        """The faults in how a run ends, in sentences."""
        token = uuid.uuid4().hex
        with TemporaryDirectory() as folder:
            for number in range(_SPECS):
                (Path(folder) / f"{number:03}.yaml").write_text(_SPEC, "utf-8")
            report = Path(folder) / "report.json"
            words = ["run", ".", "--engine", "reference", "--report", f"json={report}"]
            process = subprocess.Popen(
                [sys.executable, "-m", "gradcheck_cli", *words],
                cwd=folder,
                env=environment(**{TOKEN: token}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            first = process.stdout.readline() if running else ""
            time.sleep(after)
            process.send_signal(which)
            try:
                out, err = process.communicate(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return [f"the run goes on for {_LIMIT_S:g} s", *survivors(token)]
            ending = self._ending(which, process.returncode, first + out, err, report)
            return [*ending, *survivors(token)]

    def _ending(
        self, which: signal.Signals, code: int, out: str, err: str, report: Path
    ) -> Iterator[str]:
        if code == 0:
            self.counted["ended before the signal"] += 1
            return
        # before the command line could listen: of what Python does then we have no say
        traceback = "Traceback" in err
        early = not out and (code == -which or traceback) and "gradcheck_cli" not in err
        self.counted["ended while Python starts" if early else "interrupted"] += 1
        if not early and code != CODES[which]:
            yield f"exit code {code}: {err[-400:]}"
        if traceback and not early:
            yield f"a traceback: {err[-400:]}"
        text = report.read_text("utf-8") if report.exists() else ""
        if text:
            try:
                json.loads(text)["summary"]
            except (ValueError, KeyError) as error:
                yield f"the report is broken: {type(error).__name__}: {error}"
            self.counted["reports of what was finished"] += 1
