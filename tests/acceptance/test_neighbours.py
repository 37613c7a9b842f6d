"""Whatever the layer of one spec does to its process, the next spec is found as it is alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli import specfile
from gradcheck_cli.domain.events import Finished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.run.session import run

pytestmark = pytest.mark.exhaustive

NUMPY = """
import faulthandler, os, pickle, resource, signal, subprocess, sys, threading
import numpy as np

def backward(cotangent, x):
    return cotangent * np.cos(x)

def forward(x):
    {does}
    return np.sin(x)
"""
TORCH = """
import torch

def layer(x):
    {does}
    return torch.sin(x)
"""
WRONG = {
    "numpy": NUMPY.format(does="").replace("np.cos(x)", "2 * np.cos(x)"),
    "torch": TORCH.format(does="return torch.sin(x) + x.detach()"),
}
WRITES = """
    class Evil:
        def __reduce__(self):
            return os._exit, (0,)
    body = pickle.dumps(Evil())
    for descriptor in range(3, 40):
        try:
            os.write(descriptor, len(body).to_bytes(8, "big") + body)
        except OSError:
            pass
"""
RAISES = """
    from gradcheck_cli.engines.base import EngineFault
    class Evil:
        def __reduce__(self):
            return os._exit, (0,)
    fault = EngineFault("no")
    fault.detail = Evil()
    raise fault
"""
EXAMINES = """
    import gradcheck_cli.checks
    from gradcheck_cli.domain.layer import LayerAnswer
    gradcheck_cli.checks.examination = lambda *parts: LayerAnswer()
"""
HOSTILE = {
    "numpy": {
        "forks": "os.fork()",
        "writes to its pipes": WRITES,
        "raises an object": RAISES,
        "replaces our function": EXAMINES,
        "replaces NumPy's": "np.array = None",
        "limits its files": "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))",
        "starts a timer": "threading.Timer(2, os._exit, (0,)).start()",
        "asks for a dump": "faulthandler.dump_traceback_later(2, exit=True)",
        "sets an alarm": "signal.setitimer(signal.ITIMER_REAL, 2)",
    },
    "torch": {
        "moves the default": "torch.set_default_device('meta')",
        "replaces torch's": "torch.autograd.grad = None",
    },
}


def results(folder: Path, engine: str, layers: list[tuple[str, str]]) -> list[SpecResult]:
    specs = []
    for number, (name, code) in enumerate(layers):
        file = folder / f"layer{number}.py"
        file.write_text(code, "utf-8")
        target = file.name if engine == "numpy" else f"{file.name}:layer"
        text = f"name: {name}\ninputs: {{x: [0.5, 2.0]}}\nimplementations: {{{engine}: {target}}}\n"
        (folder / f"layer{number}.yaml").write_text(text, "utf-8")
        found, errors = specfile.read(str(folder / f"layer{number}.yaml"))
        assert not errors
        specs += found
    options = RunOptions(modes=Layered(override=("reverse",)))
    *_, last = run(specs, options)
    assert isinstance(last, Finished)
    return list(last.report.results)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_the_next_spec_is_found_as_it_is(tmp_path: Path, engine: str) -> None:
    template = {"numpy": NUMPY, "torch": TORCH}[engine]
    layers = [("wrong alone", WRONG[engine])]
    for name, does in HOSTILE[engine].items():
        layers += [(name, template.format(does=does)), (f"wrong after {name}", WRONG[engine])]
    alone, *others = results(tmp_path, engine, layers)
    assert alone.findings
    for result in others[1::2]:
        found = [(f.code, f.dtype, f.message) for f in result.findings]
        assert found == [(f.code, f.dtype, f.message) for f in alone.findings], result.spec
