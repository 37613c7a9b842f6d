"""Behaviours by which a layer may harm its worker and its neighbours, as a table.

Each is code inside a layer that is otherwise right. It runs at one call or at every call, or
replaces the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Expected = Literal["finding", "quiet", "either"]


@dataclass(frozen=True)
class Behaviour:
    """`code` runs before the layer returns; `returns` takes the place of what it returns, where
    {sine} is the right result. `always`: at every call, not only at the chosen one.

    expects     "finding": an error or a warning of this layer; "quiet": none; "either"
    only        the framework that it is about, where it is about one
    keys        further lines of its spec
    """

    code: str = ""
    returns: str = "{sine}"
    expects: Expected = "either"
    always: bool = False
    only: str = ""
    keys: str = ""


def _returning(value: str) -> Behaviour:
    return Behaviour(returns=value, expects="finding", always=True)


BEHAVIOURS: dict[str, Behaviour] = {
    # what is returned
    "returns None": _returning("None"),
    "returns a text": _returning("'text'"),
    "returns a whole number": _returning("3"),
    "returns an empty tuple": _returning("()"),
    "returns an empty list": _returning("[]"),
    "returns an empty dictionary": _returning("{{}}"),
    "returns a generator": _returning("(v for v in [{sine}])"),
    "returns a coroutine": Behaviour(
        "async def later():\n    return {sine}", "later()", "finding", always=True
    ),
    "returns a class": _returning("type('Result', (), {{}})"),
    "returns an object": _returning("object()"),
    "returns a function": _returning("lambda: {sine}"),
    "returns whole numbers": _returning("numpy.array([1, 2])"),
    "returns a comparison": _returning("{sine} > 0"),
    "returns NumPy, detached": Behaviour(
        returns="{sine}.detach().numpy()", expects="finding", always=True, only="torch"
    ),
    "returns it detached": Behaviour(
        returns="{sine}.detach()", expects="finding", always=True, only="torch"
    ),
    "returns another structure now": Behaviour(returns="({sine}, {sine})"),
    "returns None now": Behaviour(returns="None", expects="finding"),
    "returns itself in a list": Behaviour(
        "own = []\nown.append(own)", "own", "finding", always=True
    ),
    # how a call may end
    "raises": Behaviour("raise RuntimeError('no')", expects="finding"),
    "raises always": Behaviour("raise RuntimeError('no')", expects="finding", always=True),
    "raises a class of its own": Behaviour(
        "raise type('Odd', (BaseException,), {{}})('no')", expects="finding"
    ),
    "raises what cannot be told": Behaviour(
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute",
        expects="finding",
    ),
    "raises KeyboardInterrupt": Behaviour("raise KeyboardInterrupt", expects="finding"),
    "raises StopIteration": Behaviour("raise StopIteration", expects="finding"),
    "raises MemoryError": Behaviour("raise MemoryError", expects="finding"),
    "raises with an evil detail": Behaviour(
        "from gradcheck_cli.engines.errors import EngineFault\n"
        "class Evil:\n    def __reduce__(self):\n        return os._exit, (0,)\n"
        "fault = EngineFault('no')\nfault.detail = Evil()\nraise fault",
        expects="finding",
    ),
    "recurses for ever": Behaviour("layer(x)", expects="finding", always=True),
    "calls sys.exit": Behaviour("sys.exit(0)", expects="finding"),
    "calls os._exit(0)": Behaviour("os._exit(0)", expects="finding"),
    "calls os._exit(3)": Behaviour("os._exit(3)", expects="finding"),
    "kills itself": Behaviour("os.kill(os.getpid(), signal.SIGKILL)", expects="finding"),
    "aborts": Behaviour("os.abort()", expects="finding"),
    "reads from address 0": Behaviour("ctypes.string_at(0)", expects="finding"),
    "loops for ever": Behaviour("while True:\n    pass", expects="finding", keys="timeout: 3"),
    "sleeps": Behaviour("time.sleep(1000)", expects="finding", keys="timeout: 3"),
    "takes memory": Behaviour(
        "hoard = [bytearray(b'1' * (1 << 28)) for _ in range(12)]\ntime.sleep(5)",
        expects="finding",
        keys="memory: 1",
    ),
    "takes memory in a child": Behaviour(
        "subprocess.run([sys.executable, '-c', 'h = b\"1\" * (3 << 30); import time; "
        "time.sleep(5)'])",
        keys="memory: 1",
    ),
    # processes and threads
    "forks, and the child returns": Behaviour("os.fork()"),
    "forks, and the child sleeps": Behaviour("if os.fork() == 0:\n    time.sleep(1000)"),
    "forks, and the child raises": Behaviour("if os.fork() == 0:\n    raise RuntimeError('child')"),
    "starts a process": Behaviour("subprocess.Popen(['sleep', '1000'])"),
    "starts a process of its own group": Behaviour(
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    ),
    "starts a daemon": Behaviour(
        "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n    time.sleep(1000)\n    os._exit(0)"
    ),
    "starts a thread": Behaviour("threading.Thread(target=time.sleep, args=(1000,)).start()"),
    "starts a timer that ends the process": Behaviour(
        "threading.Timer(0.3, os._exit, (0,)).start()"
    ),
    "asks for an alarm": Behaviour("signal.alarm(1)"),
    "asks faulthandler for the end": Behaviour("faulthandler.dump_traceback_later(0.5, exit=True)"),
    "ignores SIGTERM": Behaviour("signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    # descriptors
    "prints": Behaviour("print('x' * 10000)\nprint('y', file=sys.stderr)", expects="quiet"),
    "writes to descriptor 1": Behaviour('os.write(1, b\'{{"status": "passed"}}\\n\' * 9)'),
    "writes to descriptor 2": Behaviour("os.write(2, b'\\x1b[2J\\xff\\x00' * 99)"),
    "writes to every descriptor": Behaviour(
        "for fd in range(3, 40):\n    try:\n        os.write(fd, b'junk' * 64)\n"
        "    except OSError:\n        pass"
    ),
    "closes its streams": Behaviour("for fd in (0, 1, 2):\n    os.close(fd)"),
    "closes every descriptor": Behaviour("os.closerange(3, 100)"),
    "takes the streams away": Behaviour("sys.stdout = sys.stderr = sys.stdin = None"),
    "reads its input": Behaviour("sys.stdin.read()", keys="timeout: 5"),
    # the state of the process
    "changes the working directory": Behaviour("os.chdir('/')"),
    "deletes its own file": Behaviour("os.path.exists(__file__) and os.unlink(__file__)"),
    "clears the environment": Behaviour("os.environ.clear()"),
    "clears sys.path": Behaviour("sys.path.clear()"),
    "clears the modules": Behaviour("sys.modules.clear()"),
    "seeds": Behaviour("random.seed(0)\nnumpy.random.seed(0)"),
    "makes NumPy raise": Behaviour("numpy.seterr(all='raise')"),
    "makes warnings errors": Behaviour("warnings.simplefilter('error')"),
    "limits recursion": Behaviour("sys.setrecursionlimit(120)"),
    "limits open files": Behaviour("resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))"),
    "limits memory": Behaviour("resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))"),
    "stops the garbage collector": Behaviour("gc.disable()", expects="quiet"),
    "stops the clock": Behaviour("time.monotonic = time.perf_counter = time.time = lambda: 0.0"),
    "traces": Behaviour("sys.settrace(lambda *a: None)"),
    "patches NumPy": Behaviour("numpy.array = numpy.asarray = None"),
    "patches print and len": Behaviour("builtins.print = builtins.len = None"),
    "patches the checker": Behaviour(
        "import gradcheck_cli.checks.examination as e\nimport gradcheck_cli.checks as l\n"
        "from gradcheck_cli.domain.layer import LayerAnswer\n"
        "l.examine = e.examine = lambda *a, **k: LayerAnswer()"
    ),
    "patches torch": Behaviour("torch.autograd.grad = None", only="torch"),
    "sets the default dtype": Behaviour("torch.set_default_dtype(torch.float64)", only="torch"),
    "sets the default device": Behaviour("torch.set_default_device('meta')", only="torch"),
    "stops gradients": Behaviour("torch.set_grad_enabled(False)", only="torch"),
    "asks for determinism": Behaviour("torch.use_deterministic_algorithms(True)", only="torch"),
    "changes its input": Behaviour("x.data.add_(1)", expects="finding", always=True, only="torch"),
    "enables 64 bits": Behaviour("jax.config.update('jax_enable_x64', False)", only="jax"),
    "disables compilation": Behaviour("jax.config.update('jax_disable_jit', True)", only="jax"),
    "debugs nans": Behaviour("jax.config.update('jax_debug_nans', True)", only="jax"),
    "patches jax": Behaviour("jax.vjp = jax.jvp = None", only="jax"),
    "patches tensorflow": Behaviour("tf.GradientTape = None", only="tensorflow"),
    "runs functions eagerly": Behaviour("tf.config.run_functions_eagerly(True)", only="tensorflow"),
    "stays quiet": Behaviour(expects="quiet"),
}

IMPORTS = {
    "torch": ("import torch", "torch.sin(x)"),
    "tensorflow": ("import tensorflow as tf", "tf.sin(x)"),
    "jax": ("import jax\nimport jax.numpy as jnp", "jnp.sin(x)"),
    "numpy": ("", "numpy.sin(x)"),
}
"""Framework -> how it is imported, and a right layer."""

PAIRS = {
    "numpy": (
        "\n\npair_forward = layer\n\n\n"
        "def pair_backward(upstream, x):\n    return upstream * numpy.cos(x)\n"
    )
}
"""Framework -> what makes `layer` a layer there, which is then called "pair"."""

MARK = "met"
"""The ending of a file that the layer leaves beside its own when it comes to misbehave."""

_MODULES = (
    "builtins, ctypes, faulthandler, gc, os, random, resource, signal, subprocess, sys, threading, "
    "time, warnings, numpy"
)


def source(behaviour: Behaviour, framework: str, call: int) -> str:
    """A file with a `layer` that behaves in this way at its call of that number, counted from 1."""
    imports, sine = IMPORTS[framework]
    due = "True" if behaviour.always else f"calls == {call}"
    code = behaviour.code.format(sine=sine) or "pass"
    body = "\n".join(f"        {line}" for line in code.splitlines())
    returned = behaviour.returns.format(sine=sine)
    return (
        f"import {_MODULES}\n{imports}\n\ncalls = 0\n\n\n"
        f"def layer(x):\n    global calls\n    calls += 1\n    if {due}:\n"
        f"        open(__file__ + '.{MARK}', 'w').close()\n{body}\n"
        f"        return {returned}\n    return {sine}\n{PAIRS.get(framework, '')}"
    )
