"""Engines that misbehave. They are found like any plug-in: through entry points on the path."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines import entry_points, registry

_ENGINES = '''
import ctypes, os, pickle, subprocess, sys, time
from dataclasses import replace
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.reference.engine import ReferenceEngine


def _say(child):
    """Writes the number of a process, whole, where tests look for it."""
    path = os.environ["CHILD_PID_FILE"]
    with open(path + ".new", "w") as file:
        file.write(str(child))
    os.replace(path + ".new", path)


class _Fake(ReferenceEngine):
    def __init_subclass__(cls):
        name = cls.__name__.lower()
        cls.capabilities = replace(ReferenceEngine.capabilities, name=name)

    def misbehaves(self, problem):
        return "bad" in problem.values

    def evaluate(self, problem):
        if self.misbehaves(problem):
            self.misbehave()
        return super().evaluate(problem)

    def train(self, problem):
        if self.misbehaves(problem):
            self.misbehave()
        return super().train(problem)


class Raising(_Fake):
    def misbehave(self):
        raise RuntimeError("the framework says no\\nand more")


class Segfault(_Fake):
    def misbehave(self):
        ctypes.string_at(0)


class Aborting(_Fake):
    def misbehave(self):
        print("last words", flush=True)
        os.abort()


class Exiting(_Fake):
    def misbehave(self):
        sys.exit(7)


class Gone(_Fake):
    def misbehave(self):
        os._exit(7)


class Hoarding(_Fake):
    """Takes 200 MB, holds them for a moment, and goes on as if nothing had been."""

    def misbehave(self):
        kept = bytearray(200_000_000)
        kept[::4096] = b"x" * len(kept[::4096])
        time.sleep(0.3)


class Hanging(_Fake):
    def misbehave(self):
        time.sleep(3600)


class Deaf(_Fake):
    """Hangs in C, holding the interpreter's lock: no Python thread of its process runs again."""

    def misbehave(self):
        ctypes.PyDLL(None).sleep(3600)


class Chatty(_Fake):
    def misbehave(self):
        for _ in range(2000):
            print("out " * 64)
            os.write(1, b"fd one " * 64)
            os.write(2, b"fd two " * 64)


class Parent(_Fake):
    """Starts a process of its own that would live on, and says which."""

    def misbehave(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        _say(child.pid)
        time.sleep(3600)


class Vandal(_Fake):
    """Writes into every descriptor that it finds, the channel included."""

    def misbehave(self):
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, b"\\xff" * 64)
            except OSError:
                pass
        time.sleep(1)


class Forking(_Fake):
    """Forks; the child comes back as if it were the worker."""

    def misbehave(self):
        os.fork()


class Repeating(_Fake):
    """Sends the answer to its first question once more, as a second worker would."""

    def misbehave(self):
        from gradcheck_cli.run.workers import channel

        first = channel.packed(channel.Answer(0, None))
        _write_everywhere(first)


class Forging(_Fake):
    """Writes what runs code where it is unpickled."""

    def misbehave(self):
        class Evil:
            def __reduce__(self):
                return os._exit, (0,)

        body = pickle.dumps(Evil())
        _write_everywhere(len(body).to_bytes(8, "big") + body)
        time.sleep(1)


class Announcing(_Fake):
    """Says that a gigabyte comes."""

    def misbehave(self):
        _write_everywhere((1 << 30).to_bytes(8, "big") + b"x" * 1000)
        time.sleep(1)


class Runaway(_Fake):
    """Starts a process that has left its session and its parents, and crashes in float32."""

    def misbehave(self):
        if not os.fork():
            os.setsid()
            if child := os.fork():
                # Until then it has the environment of what tests fork their workers from.
                while not open(f"/proc/{child}/cmdline").read().startswith("sleep"):
                    time.sleep(0.001)
                _say(child)
                os._exit(0)
            os.execvp("sleep", ["sleep", "3600"])
        while not os.path.exists(os.environ["CHILD_PID_FILE"]):
            time.sleep(0.01)
        if os.environ.get("RUNAWAY") == "crash":
            os.abort()


class Growing(_Fake):
    """A child of its takes 200 MB."""

    def misbehave(self):
        if not (child := os.fork()):
            kept = bytearray(200_000_000)
            kept[::4096] = b"x" * len(kept[::4096])
            time.sleep(3600)
        time.sleep(1)
        os.kill(child, 9)


class Burdened(_Fake):
    """Crashes at a question that is not bad, where a bad one went before."""

    burdened = False

    def misbehave(self):
        Burdened.burdened = True

    def evaluate(self, problem):
        if Burdened.burdened and not self.misbehaves(problem):
            os.abort()
        return super().evaluate(problem)


class Tired(_Fake):
    """Crashes at its second bad question."""

    bad = 0

    def misbehave(self):
        Tired.bad += 1
        if Tired.bad == 2:
            os.abort()


def _write_everywhere(data):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, data)
        except OSError:
            pass


class Counted(_Fake):
    """Notes every import of its framework in a file."""

    def load(self):
        with open(os.environ["IMPORTS_FILE"], "a") as file:
            file.write("imported\\n")
        return super().load()

    def misbehave(self):
        os.abort()


class Stillborn(Counted):
    def load(self):
        super().load()
        ctypes.string_at(0)


class Compiler(_Fake):
    """Compiles for longer than the tasks of its tests may take."""

    def misbehave(self):
        with off_the_clock():
            time.sleep(1.2)


class Late(Counted):
    """Cannot be imported twice."""

    def load(self):
        if os.path.exists(os.environ["IMPORTS_FILE"]):
            raise ImportError("one of it is enough")
        return super().load()


class Slow(_Fake):
    def load(self):
        time.sleep(float(os.environ.get("IMPORT_S", 1.5)))
        return super().load()


class Unloadable(_Fake):
    def load(self):
        raise ImportError("libfake.so.3: cannot open shared object file")


class OneMode(_Fake):
    capabilities = None

class OnGpu(_Fake):
    """Computes `far` on the second GPU and everything else on the CPU."""

    def misbehaves(self, problem):
        where = ("cuda:1", "tf32") if "far" in problem.values else ("cpu", "full")
        return (self.placement.device, self.placement.matmul) != where

    def misbehave(self):
        raise RuntimeError(f"it is on {self.placement}")

class Refused(_Fake):
    def load(self):
        from gradcheck_cli.engines.errors import EngineFault

        raise EngineFault("its framework is built without CUDA")

OnGpu.capabilities = replace(OnGpu.capabilities, devices=("cpu", "cuda"))
OneMode.capabilities = replace(ReferenceEngine.capabilities, name="onemode", modes=("reverse",))
'''

NAMES = (
    "Tired",
    "Compiler",
    "Raising",
    "Segfault",
    "Aborting",
    "Exiting",
    "Gone",
    "Hoarding",
    "Hanging",
    "Deaf",
    "Chatty",
    "Parent",
    "Vandal",
    "Forking",
    "Repeating",
    "Forging",
    "Announcing",
    "Runaway",
    "Growing",
    "Burdened",
    "Counted",
    "Stillborn",
    "Late",
    "Slow",
    "Unloadable",
    "OneMode",
    "OnGpu",
    "Refused",
)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The misbehaving engines, registered; their targets by name."""
    folder = tmp_path / "fakes"
    info = folder / "fake_engines-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "fake_engines.py").write_text(_ENGINES)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-engines\nVersion: 1.0\n")
    targets = {name.lower(): f"fake_engines:{name}" for name in NAMES}
    lines = "".join(f"{name} = {target}\n" for name, target in targets.items())
    (info / "entry_points.txt").write_text(f"[gradcheck.engines]\n{lines}")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "fake_engines", raising=False)
    monkeypatch.setenv("CHILD_PID_FILE", str(tmp_path / "child_pid"))
    monkeypatch.setenv("IMPORTS_FILE", str(tmp_path / "imports"))
    for kept in (entry_points.claims, entry_points.targets, registry.engines):
        kept.cache_clear()
    yield targets
    for kept in (entry_points.claims, entry_points.targets, registry.engines):
        kept.cache_clear()


@pytest.fixture
def spec(tmp_path: Path) -> Callable[[str], Spec]:
    """spec("inputs: {x: 2}\\nmodel: x ** 2"): the one spec of that text."""
    count = iter(range(1000))

    def read(text: str) -> Spec:
        path = tmp_path / f"spec{next(count)}.yaml"
        path.write_text(text)
        specs, errors = specfile.read(str(path))
        assert not errors, [error.message for error in errors]
        (one,) = specs
        return one

    return read


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process still runs (a zombie does not)."""

    def check(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    return check


@pytest.fixture
def ends(alive: Callable[[int], bool]) -> Callable[[int], bool]:
    """Whether a process ends within five seconds: a killed process exists for a moment."""

    def check(pid: int) -> bool:
        deadline = time.monotonic() + 5
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        return not alive(pid)

    return check
