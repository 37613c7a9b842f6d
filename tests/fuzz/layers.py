"""Hostile layers next to innocent ones: the trouble of one spec must not affect others.

Each input is a layer that misbehaves (`hostile.BEHAVIOURS`), at the first, second or last place of
a run with a right layer and a wrong one. The innocent ones must get the same results as alone, and
the hostile one the results that it deserves. The run must end with 0 or 1, and leave nothing
running.

Most of a run is the import of its framework, so up to `TOGETHER` hostile layers share one. If
something is wrong with that run, each of them runs again without the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.cli.calling import environment
from tests.fuzz.driver import Finding, drawn
from tests.fuzz.hostile import BEHAVIOURS, IMPORTS, MARK, PAIRS, source

TOKEN = "GRADCHECK_FUZZ_TOKEN"
"""A variable of the environment by which what a run started is known."""

TOGETHER = 4
"""Hostile layers of one framework in a run."""

_LIMIT_S = 240.0  # for a run of a few small layers, on a machine that is busy
_ENDING_S = 10.0  # for processes to be gone after the run has ended

_INNOCENT = {
    "torch": """
import torch


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, upstream):
        return -upstream * torch.cos(ctx.saved_tensors[0])


def wrong(x):
    return Wrong.apply(x)


def right(x):
    return torch.tanh(x)
""",
    "tensorflow": """
import tensorflow as tf


@tf.custom_gradient
def wrong(x):
    return tf.sin(x), lambda upstream: -upstream * tf.cos(x)


def right(x):
    return tf.tanh(x)
""",
    "jax": """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def wrong(x):
    return jnp.sin(x)


wrong.defvjp(lambda x: (jnp.sin(x), x), lambda x, upstream: (-upstream * jnp.cos(x),))


def right(x):
    return jnp.tanh(x)
""",
    "numpy": """
import numpy


def wrong_forward(x):
    return numpy.sin(x)


def wrong_backward(upstream, x):
    return -upstream * numpy.cos(x)


def right_forward(x):
    return numpy.tanh(x)


def right_backward(upstream, x):
    return upstream / numpy.cosh(x) ** 2
""",
}
_NAMES = ("right", "wrong")


class Hostile(NamedTuple):
    """A layer that misbehaves: how, at which call, and its place among the innocent ones."""

    name: str
    call: int
    place: int


class Layers:
    """The fuzzer of hostile layers."""

    name = "layers"

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def __enter__(self) -> Layers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def input(self, seed: int, index: int) -> tuple[str, str, int, int]:
        """The framework, the behaviour, the call at which it happens, and its place in the run. All
        behaviours come before any repeats."""
        rng = drawn(seed, self.name, index)
        order = drawn(seed, self.name, -1 - index // len(BEHAVIOURS) & 0xFFFF).permutation(
            len(BEHAVIOURS)
        )
        name = list(BEHAVIOURS)[int(order[index % len(BEHAVIOURS)])]
        framework = BEHAVIOURS[name].only or str(rng.choice(list(IMPORTS)))
        return framework, name, int(rng.choice([1, 2, 3, 7, 20, 60])), int(rng.integers(3))

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        by_framework: dict[str, dict[int, Hostile]] = {}
        for index in indices:
            framework, name, call, place = self.input(seed, index)
            by_framework.setdefault(framework, {})[index] = Hostile(name, call, place)
            self.counted[framework] += 1
        for framework, hostile_of in by_framework.items():
            chosen = list(hostile_of)
            for first in range(0, len(chosen), TOGETHER):
                group = {index: hostile_of[index] for index in chosen[first : first + TOGETHER]}
                yield from self._findings(framework, group)

    def _findings(self, framework: str, group: Mapping[int, Hostile]) -> Iterator[Finding]:
        faults = faults_of(framework, *group.values())
        if not faults:
            return
        found = [
            (index, [one], told)
            for index, one in group.items()
            if (told := faults if len(group) == 1 else faults_of(framework, one))
        ]
        for index, which, told in found or [(min(group), [*group.values()], faults)]:
            where = "; ".join(f"{one.name}, call {one.call}, place {one.place}" for one in which)
            text = "\n\n".join(source(BEHAVIOURS[one.name], framework, one.call) for one in which)
            yield Finding(index, "\n  ".join([f"{where}, {framework}:", *told]), text, ".py")


def faults_of(framework: str, *hostile: Hostile) -> list[str]:
    """The faults of a run with these layers, in sentences."""
    with TemporaryDirectory() as folder:
        _write(Path(folder), framework, hostile)
        report, faults = run_in(Path(folder))
        met = [(Path(folder) / f"hostile{k}.py.{MARK}").exists() for k in range(len(hostile))]
    if report is None:
        return faults
    found = _verdicts(report)
    for innocent in _NAMES:
        if found.get(innocent) != alone(framework)[innocent]:
            told = f"`{innocent}` gets {found.get(innocent)}, alone {alone(framework)[innocent]}"
            faults.append(told)
    for k, one in enumerate(hostile):
        expects, verdict = BEHAVIOURS[one.name].expects, found.get(f"hostile{k}")
        if verdict is None:
            faults.append(f"`{one.name}` has no verdict")
        elif expects == "finding" and met[k] and verdict[0] == "passed":
            faults.append(f"`{one.name}` passes: {verdict}")
        elif expects == "quiet" and verdict[0] != "passed":
            faults.append(f"`{one.name}` is right, and gets {verdict}")
    return faults


@cache
def alone(framework: str) -> dict[str, Any]:
    """The results of the innocent layers without a hostile one."""
    with TemporaryDirectory() as folder:
        _write(Path(folder), framework, ())
        report, faults = run_in(Path(folder))
    assert report is not None, faults
    assert not faults, faults
    found = _verdicts(report)
    assert found["right"][0] == "passed", found
    assert any(code == "GC101" for code, *_ in found["wrong"][1]), found
    return found


def _write(folder: Path, framework: str, hostile: Sequence[Hostile]) -> None:
    (folder / "innocent.py").write_text(_INNOCENT[framework], "utf-8")
    specs = [_spec(name, framework, f"innocent.py:{name}") for name in _NAMES]
    target = "pair" if framework in PAIRS else "layer"
    for k, (name, call, place) in enumerate(hostile):
        behaviour, file = BEHAVIOURS[name], f"hostile{k}"
        (folder / f"{file}.py").write_text(source(behaviour, framework, call), "utf-8")
        spec = _spec(file, framework, f"{file}.py:{target}")
        specs.insert(place, f"{spec}{behaviour.keys}\n")
    for number, spec in enumerate(specs):
        (folder / f"{number}.yaml").write_text(spec, "utf-8")


def _spec(name: str, framework: str, target: str) -> str:
    implementations = f"{{{framework}: '{target}'}}"
    return f"name: {name}\ninputs: {{x: [0.3, -1.2]}}\nimplementations: {implementations}\n"


def _verdicts(report: Any) -> dict[str, Any]:
    """Spec -> its status and its findings: code, dtype and mode."""
    return {
        result["spec"]: (
            result["status"],
            sorted({(f["code"], f["dtype"] or "", f["mode"] or "") for f in result["findings"]}),
        )
        for result in report["results"]
    }


def run_in(folder: Path) -> tuple[Any, list[str]]:
    """The JSON report of a run over the specs of a folder, and the faults of its end."""
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "gradcheck_cli", "run", ".", "--format", "json"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**{TOKEN: token}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    faults = []
    try:
        out, err = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        faults = [f"the run hangs for {_LIMIT_S:g} s", *survivors(token)]
        return None, faults
    if process.returncode not in (0, 1):
        faults.append(f"exit code {process.returncode}: {err[-600:]}")
    if "Traceback" in err:
        faults.append(f"a traceback: {err[-600:]}")
    faults += survivors(token)
    try:
        return json.loads(out), faults
    except ValueError as error:
        return None, [*faults, f"the report is no JSON: {error}: {out[-200:]}"]


def survivors(token: str) -> list[str]:
    """The processes that a run left running, in sentences. They are ended here."""
    for _ in range(int(_ENDING_S / 0.1)):
        left = list(_processes(token))
        if not left:
            return []
        time.sleep(0.1)
    for pid, _ in left:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
    return [f"left running: {command}" for _, command in left]


def _processes(token: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if f"{TOKEN}={token}".encode() in (folder / "environ").read_bytes():
                command = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if command:  # a zombie has none
                    yield int(folder.name), command
        except OSError:
            continue
