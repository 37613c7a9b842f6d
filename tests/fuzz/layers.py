"""Hostile layers beside innocent ones: one spec's trouble is its own.

Each input is a run of three specs of one framework: a layer that misbehaves (`hostile.BEHAVIOURS`)
at the first, second or last place, a right layer and a wrong one. The innocent ones must get what
they get alone, the hostile one what it deserves; the run ends with 0 or 1, and nothing survives it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.cli.calling import environment
from tests.fuzz.driver import Finding, drawn
from tests.fuzz.hostile import BEHAVIOURS, IMPORTS, MARK, PAIRS, Behaviour, source

TOKEN = "GRADCHECK_FUZZ_TOKEN"
"""A variable of the environment by which what a run started is known."""

_LIMIT_S = 240.0  # for a run of three small layers, on a machine that is busy
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
        """Framework, behaviour, the call at which it happens, and its place in the run. All
        behaviours come before one comes again."""
        rng = drawn(seed, self.name, index)
        order = drawn(seed, self.name, -1 - index // len(BEHAVIOURS) & 0xFFFF).permutation(
            len(BEHAVIOURS)
        )
        name = list(BEHAVIOURS)[int(order[index % len(BEHAVIOURS)])]
        framework = BEHAVIOURS[name].only or str(rng.choice(list(IMPORTS)))
        return framework, name, int(rng.choice([1, 2, 3, 7, 20, 60])), int(rng.integers(3))

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        inputs = [self.input(seed, index) for index in indices]
        for framework in dict.fromkeys(framework for framework, *_ in inputs):
            alone(framework)
        for index, (framework, name, call, place) in zip(indices, inputs, strict=True):
            faults = faults_of(framework, name, call, place)
            self.counted[framework] += 1
            if faults:
                where = f"{name}, call {call}, place {place}, {framework}"
                says = "\n  ".join([f"{where}:", *faults])
                yield Finding(index, says, source(BEHAVIOURS[name], framework, call), ".py")


def faults_of(framework: str, name: str, call: int, place: int) -> list[str]:
    """What is wrong with a run beside such a layer, in sentences."""
    behaviour = BEHAVIOURS[name]
    with TemporaryDirectory() as folder:
        _write(Path(folder), framework, (behaviour, call, place))
        report, faults = run_in(Path(folder))
        met = (Path(folder) / f"hostile.py.{MARK}").exists()
    if report is None:
        return faults
    found = _verdicts(report)
    for innocent in _NAMES:
        if found.get(innocent) != alone(framework)[innocent]:
            told = f"`{innocent}` gets {found.get(innocent)}, alone {alone(framework)[innocent]}"
            faults.append(told)
    hostile = found.get("hostile")
    if hostile is None:
        faults.append("the hostile layer has no verdict")
    elif behaviour.expects == "finding" and met and hostile[0] == "passed":
        faults.append(f"nothing is said of the hostile layer: {hostile}")
    elif behaviour.expects == "quiet" and hostile[0] != "passed":
        faults.append(f"the layer is right, and gets {hostile}")
    return faults


@cache
def alone(framework: str) -> dict[str, Any]:
    """What the innocent layers get without a hostile one."""
    with TemporaryDirectory() as folder:
        _write(Path(folder), framework, None)
        report, faults = run_in(Path(folder))
    assert report is not None, faults
    assert not faults, faults
    found = _verdicts(report)
    assert found["right"][0] == "passed", found
    assert found["wrong"][0] == "failed", found
    return found


def _write(folder: Path, framework: str, hostile: tuple[Behaviour, int, int] | None) -> None:
    (folder / "innocent.py").write_text(_INNOCENT[framework], "utf-8")
    specs = [
        f"name: {name}\ninputs: {{x: [0.3, -1.2]}}\n"
        f"implementations: {{{framework}: 'innocent.py:{name}'}}\n"
        for name in _NAMES
    ]
    if hostile is not None:
        behaviour, call, place = hostile
        target = "pair" if framework in PAIRS else "layer"
        (folder / "hostile.py").write_text(source(behaviour, framework, call), "utf-8")
        spec = (
            "name: hostile\ninputs: {x: [0.3, -1.2]}\n"
            f"implementations: {{{framework}: 'hostile.py:{target}'}}\n{behaviour.keys}\n"
        )
        specs.insert(place, spec)
    for number, spec in enumerate(specs):
        (folder / f"{number}.yaml").write_text(spec, "utf-8")


def _verdicts(report: Any) -> dict[str, Any]:
    """Spec -> its status, and what was found: code, dtype and mode."""
    return {
        result["spec"]: (
            result["status"],
            sorted({(f["code"], f["dtype"] or "", f["mode"] or "") for f in result["findings"]}),
        )
        for result in report["results"]
    }


def run_in(folder: Path) -> tuple[Any, list[str]]:
    """The JSON report of a run over the specs of a folder, and what is wrong with how it ended."""
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
    """What a run left running, in sentences; it is ended here."""
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
