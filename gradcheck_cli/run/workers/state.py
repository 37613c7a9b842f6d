"""State of a process that the code of one spec may leave behind, and that could affect the next
spec.

A new process for each spec would be simpler. But importing a framework takes seconds, and forking a
warm process costs as much again as the check of a small layer (for JAX and TensorFlow four times as
much, because their compiled code is lost). So the worker compares its state with the state at its
start. It restores what can be restored without doubt; after any other change the worker ends, and
the next spec gets a new one. `docs/guides/isolation.md` has the list.
"""

from __future__ import annotations

import faulthandler
import gc
import locale
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

_MISSING = object()
_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the attributes of other classes cannot be set
_OURS = ("checks", "domain", "engines", "explain", "judge", "run", "truth")
_PUBLIC = {
    "builtins": (),
    "math": (),
    "random": (),
    "jax": ("lax", "nn", "numpy", "random"),
    "numpy": ("fft", "linalg", "random"),
    "tensorflow": ("linalg", "math", "nn", "random"),
    "torch": ("autograd", "fft", "func", "linalg", "nn", "special"),
    "torch.nn": ("functional",),
}
"""Where a function that was replaced changes the verdict about another spec: in our own modules,
and in what a person writes as `torch.sin` or `torch.autograd.grad`, classes included."""
_OF_FRAMEWORKS: dict[str, Callable[[Any], object]] = {
    "torch": lambda torch: (
        torch.get_default_device(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
    ),
    "tensorflow": lambda tf: (
        tf.executing_eagerly(),
        tf.config.functions_run_eagerly(),
        tf.config.get_soft_device_placement(),
        tf.config.experimental.tensor_float_32_execution_enabled(),
    ),
    "keras": lambda keras: (keras.config.floatx(), keras.config.epsilon(), _policy(keras)),
    "jax": lambda jax: dict(jax.config.values),
    "numpy": lambda numpy: (numpy.geterr(), numpy.geterrcall()),
}
"""What a framework has set for the whole process, by the module that says it."""

_OF_THEMSELVES = (
    "torch._compile",  # hides a function from Dynamo
    "torch._dynamo.mutation_guard",  # counts the modules that are made
    "torch.testing._internal.common_utils",  # names a call in profiles
)
"""Modules of frameworks that put something around functions of their own, the first time that they
compile or that the operations of their tests are imported. It computes the same, and a fresh
process would do it again."""
_OF_DYNAMO = ("__compiled_fn_", "__resume_at_")
"""How names begin that Dynamo puts into the globals of what it compiles, and takes out again."""


class Process:
    """The state of this process as it is now."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._settings = _settings()
        self._recursion = sys.getrecursionlimit()
        self._spaces: dict[str, _Namespace] = {}
        self._known: set[str] = set()  # names of modules that were looked at
        self._look_for_more()

    def changed(self) -> str:
        """What user code has changed since then, in words. Empty if nothing has changed, or
        everything was restored."""
        faulthandler.cancel_dump_traceback_later()  # nothing tells whether one is waiting
        sys.setrecursionlimit(self._recursion)  # Inductor raises it whenever it compiles
        left = [thread for thread in threading.enumerate() if thread not in self._threads]
        if left:
            return f"the thread `{left[0].name}` is still running"
        for name, value in _settings().items():
            if value != self._settings.setdefault(name, value):
                return f"{name} has changed"
        if name := self.replaced():
            return f"`{name}` was replaced"
        self._look_for_more()
        return ""

    def replaced(self) -> str:
        """The name of a function or class that user code has replaced or removed, or an empty
        string."""
        return next(filter(None, (space.replaced() for space in self._spaces.values())), "")

    def _look_for_more(self) -> None:
        """Includes the modules that were imported since, and their classes, from now on."""
        new = [name for name in list(sys.modules) if name not in self._known]
        self._known.update(new)
        for name, module in _modules(new):
            if name in self._spaces:
                continue
            space = vars(module)
            self._spaces[name] = _Namespace(name, space)
            for found in _classes(name.partition(".")[0], space):
                self._spaces.setdefault(found.name, found)


class _Namespace:
    """The names of a module or a class, and their values."""

    def __init__(self, name: str, space: Mapping[str, Any]) -> None:
        self.name = name
        self._space = space
        self._keep()

    def _keep(self) -> None:
        self._names, self._values = list(self._space), list(self._space.values())

    def replaced(self) -> str:
        """The name of a function or class that was replaced. Other values, such as counters and
        caches, may change."""
        try:
            if self._values == list(self._space.values()):  # identical ones are equal
                return ""
        except Exception:  # arrays are not compared
            pass
        for name, before in zip(self._names, self._values, strict=True):
            now = self._space.get(name, _MISSING)
            if now is before or not _is_code(before) or name.startswith(_OF_DYNAMO):
                continue
            if not _is_of_themselves(now, before):
                return f"{self.name}.{name}"
        self._keep()
        return ""


def _policy(keras: Any) -> object:
    return keras.config.dtype_policy().name


def _modules(new: Iterable[str]) -> Iterator[tuple[str, ModuleType]]:
    """The modules among these names that are compared: the public ones."""
    for name in new:
        module = sys.modules.get(name)
        package, _, rest = name.partition(".")
        ours = package == "gradcheck_cli" and rest.partition(".")[0] in _OURS
        if (ours or package == "reference_engine") and isinstance(module, ModuleType):
            yield name, module
    for name, parts in _PUBLIC.items():
        if name in sys.modules:
            yield name, sys.modules[name]
            space = vars(sys.modules[name])
            yield from ((f"{name}.{part}", space[part]) for part in parts if part in space)


def _classes(package: str, space: Mapping[str, Any]) -> Iterator[_Namespace]:
    """The classes of that package among the values of a module, if they can be changed."""
    for value in list(space.values()):
        if isinstance(value, type) and value.__flags__ & _OF_PYTHON:
            place = str(value.__module__)
            if place.partition(".")[0] == package:
                yield _Namespace(f"{place}.{value.__qualname__}", vars(value))


def _is_of_themselves(now: object, before: object) -> bool:
    module = getattr(now, "__globals__", {}).get("__name__")
    return module in _OF_THEMSELVES and getattr(now, "__wrapped__", before) is before


def _is_code(value: object) -> bool:
    return callable(value) or isinstance(value, property | classmethod | staticmethod)


def _settings() -> dict[str, Any]:
    """The settings of the whole process, by names for people."""
    settings_now: dict[str, Any] = {
        "the garbage collector": (gc.isenabled(), gc.get_threshold()),
        "sys.settrace": (sys.gettrace(), sys.getprofile()),
        "sys.excepthook": (sys.excepthook, sys.displayhook, sys.unraisablehook),
        "sys.stdout": (sys.stdout, sys.stderr, sys.stdin),
        "a signal's handler": [signal.getsignal(number) for number in _signals()],
        "the locale": locale.setlocale(locale.LC_ALL),
    }
    for name, settings in _OF_FRAMEWORKS.items():
        if name in sys.modules:
            settings_now[f"a setting of {name}"] = settings(sys.modules[name])
    if hasattr(signal, "getitimer"):
        timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        settings_now["a timer"] = [signal.getitimer(timer) != (0.0, 0.0) for timer in timers]
        settings_now["the signals that are blocked"] = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        import resource
    except ImportError:  # not on Windows
        return settings_now
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    settings_now["a limit of resources"] = {
        n: resource.getrlimit(getattr(resource, n)) for n in names
    }
    return settings_now


def _signals() -> list[signal.Signals]:
    return sorted(signal.valid_signals() & set(signal.Signals))
