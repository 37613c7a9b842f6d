"""What the code of one spec may leave to the next is found."""

from __future__ import annotations

import faulthandler
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import gradcheck_cli.checks.examination
from gradcheck_cli.domain.report import Check
from gradcheck_cli.run.workers.state import Process
from tests.cli.calling import call

Put = Callable[[object, str, object], None]


@pytest.fixture(scope="module")
def process() -> Process:
    return Process()


def test_nothing_has_changed(process: Process) -> None:
    assert process.changed() == ""


def test_counters_and_caches_may_change(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradcheck_cli.checks.examination, "_calls", 1, raising=False)
    assert process.changed() == ""
    monkeypatch.setattr(np, "e", 2.718)
    assert process.changed() == ""


@pytest.mark.parametrize(
    ("owner", "name", "words"),
    [
        (
            gradcheck_cli.checks.examination,
            "examine",
            "`gradcheck_cli.checks.examination.examine` was replaced",
        ),
        (np, "sum", "`numpy.sum` was replaced"),
        (np.linalg, "norm", "`numpy.linalg.norm` was replaced"),
        (Check, "__init__", "`gradcheck_cli.domain.report.Check.__init__` was replaced"),
        (sys.modules["builtins"], "max", "`builtins.max` was replaced"),
        (sys, "excepthook", "sys.excepthook has changed"),
        (sys, "stdout", "sys.stdout has changed"),
    ],
)
def test_functions_that_were_replaced_are_found(
    process: Process, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, words: str
) -> None:
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: None)
    assert process.changed() == words
    monkeypatch.undo()
    assert process.changed() == ""


def test_functions_that_were_taken_away_are_found(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(np, "cos")
    assert process.changed() == "`numpy.cos` was replaced"


@contextmanager
def limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def timer() -> Iterator[None]:
    waiting = threading.Timer(60, print)
    waiting.name = "a layer's"
    waiting.start()
    yield
    waiting.cancel()
    waiting.join()


@contextmanager
def alarm() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGUSR1, before)


@contextmanager
def errors() -> Iterator[None]:
    with np.errstate(all="raise"):
        yield


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (limit, "a limit of resources"),
        (timer, "the thread `a layer's` is still running"),
        (alarm, "a timer"),
        (handler, "a signal's handler"),
        (errors, "a setting of numpy"),
    ],
)
def test_what_belongs_to_the_process_is_found(
    process: Process, change: Callable[[], Iterator[None]], words: str
) -> None:
    with change():  # type: ignore[attr-defined]
        assert process.changed().startswith(words)
    assert process.changed() == ""


def test_the_recursion_limit_is_put_back(process: Process) -> None:
    """Inductor sets it whenever it compiles."""
    before = sys.getrecursionlimit()
    for limit in (before + 1000, 120):
        sys.setrecursionlimit(limit)
        assert process.changed() == ""
        assert sys.getrecursionlimit() == before


def test_a_dump_that_waits_is_taken_back(process: Process) -> None:
    """With `exit=True` it would end the process while the next spec is examined."""
    with open("/dev/null", "w") as nowhere:
        faulthandler.dump_traceback_later(0.1, exit=True, file=nowhere)
        assert process.changed() == ""
        threading.Event().wait(0.3)  # we are still here


PATCHING = """
import numpy
import gradcheck_cli.checks.examination
from gradcheck_cli.domain.layer import LayerAnswer


def right_forward(x):
    gradcheck_cli.checks.examination.examine = lambda *_: LayerAnswer()
    return numpy.sin(x)


def right_backward(upstream, x):
    return upstream * numpy.cos(x)
"""


@pytest.mark.exhaustive
def test_what_the_first_layer_of_a_worker_replaces_is_found(tmp_path: Path) -> None:
    """The examination is imported before it, not by its own question."""
    (tmp_path / "first.py").write_text(PATCHING)
    (tmp_path / "second.py").write_text(PATCHING.replace("upstream *", "2 * upstream *"))
    for name in ("first", "second"):
        spec = f"inputs: {{x: [0.3, 1.2]}}\nimplementations: {{numpy: '{name}.py:right'}}\n"
        (tmp_path / f"{name}.yaml").write_text(spec)
    screen = call("run", "first.yaml", "second.yaml", "--engine", "numpy", cwd=tmp_path)
    assert screen.code == 1
    assert "FAIL  second" in screen.out


_WRAPPING = """
import sys
import torch
from gradcheck_cli.run.workers.state import Process
layer = type(sys)("gradcheck_cli.engines.its_own")
sys.modules[layer.__name__] = layer
exec(compile("def f(x): return x.sin()", "its_own.py", "exec"), vars(layer))
process = Process()
torch.compile(layer.f, backend="eager")(torch.ones(2))
from gradcheck_cli.engines.torch.startup import prepare_test_helpers
prepare_test_helpers()
from torch.testing._internal import common_utils
assert torch.nn.Module.__init__.__name__ == "patched_init"
assert any(name.startswith("__compiled_fn_") for name in vars(layer))
print(process.changed())
torch._dynamo.reset()
print(process.changed())
own, torch.nn.Module.__init__ = torch.nn.Module.__init__, print
print(process.changed())
torch.nn.Module.__init__ = own
sine, torch.sin = torch.sin, torch._disable_dynamo(torch.cos)
print(process.changed())
torch.sin = torch._disable_dynamo(sine)
print(process.changed())
torch.jit.ScriptFunction.__call__ = torch.sin
print(process.changed())
"""


def test_what_a_framework_puts_around_its_own_functions_is_no_change() -> None:
    """PyTorch wraps `Module.__init__` when it first compiles, and its tests' operations wrap
    ScriptFunction: every spec of a suite would end its worker, and the next import all again."""
    run = [sys.executable, "-c", _WRAPPING]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        "",
        "",
        "`torch.nn.modules.module.Module.__init__` was replaced",
        "`torch.sin` was replaced",
        "",
        "`torch.jit.torch.jit.ScriptFunction.__call__` was replaced",
    ]
