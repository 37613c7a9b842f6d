"""Finds the object that "path.py:name" or "package.module:name" refers to."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault, SpecMistake
from gradcheck_cli.engines.layer.binding import called, for_the_call
from gradcheck_cli.engines.layer.isolation import surroundings_number
from gradcheck_cli.engines.tracebacks import one_line, short_traceback

_set_up: set[tuple[str, str]] = set()  # (folder, target) of what a setup has run in this process
_LISTED = 8  # names that a message lists
_modules: dict[Path, tuple[int, ModuleType]] = {}  # by file, with its time of change
_added: dict[Path, list[str]] = {}  # to the path of imports, by the file that did so when it ran


class NoSuchLayer(SpecMistake):
    """The target of the spec does not exist. `detail` says what exists."""


class SetupFailed(EngineFault):
    """The setup of a spec raised before the layer ran. The message says what, `detail` where."""


@dataclass(frozen=True, slots=True)
class MethodOf:
    """A method of a class. `constructed` makes its object."""

    cls: type
    name: str


def load_layer(implementation: Implementation) -> Any:
    """The object that the target names, or the result of calling it if it is a function without
    parameters, which can only be a factory of layers.

    Raises NoSuchLayer, SetupFailed, and whatever the user's module raises while it is imported.
    """
    if implementation.live is not None:
        return implementation.live
    _prepare(implementation)
    layer = _load_target(implementation)
    if inspect.isfunction(layer) and not inspect.signature(layer).parameters:
        with on_the_path(implementation), np.errstate():
            return layer()
    return layer


def stem_of(target: str) -> str:
    """The target without `_forward`. With `_backward` instead, it names the backward."""
    return target.removesuffix("_forward")


def backward_beside(function: Any) -> Any:
    """The function `affine_backward` in the module of a function `affine` or `affine_forward`, or
    None."""
    if not inspect.isfunction(function):
        return None
    module = sys.modules.get(function.__module__)
    return getattr(module, f"{stem_of(function.__name__)}_backward", None)


def constructed(
    layer: Any, implementation: Implementation
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The layer that `load_layer` found, and its args and kwargs for every call. If it is a class
    or a method of one, an object is made: args, and those of kwargs that the constructor takes, go
    to the constructor."""
    kwargs = dict(implementation.kwargs)
    method = layer.name if isinstance(layer, MethodOf) else ""
    cls = layer.cls if isinstance(layer, MethodOf) else layer
    if not inspect.isclass(cls):
        return layer, implementation.args, kwargs
    own, later = for_the_call(cls, kwargs, method)
    with np.errstate():
        made = called(cls, implementation.args, own)
    return getattr(made, method) if method else made, (), later


def _prepare(implementation: Implementation) -> None:
    """Runs the setup. Each part runs once in a process, as Python imports a module once."""
    for target in implementation.setup.imports:
        if (implementation.folder, target) in _set_up:
            continue
        try:
            with on_the_path(implementation):
                found = _load_target(replace(implementation, target=target))
                if ":" in target:
                    found()
        except Exception as error:
            failed = SetupFailed(f"the setup failed: `{target}` raised {one_line(error)}")
            failed.detail = short_traceback(error)
            raise failed from error
        _set_up.add((implementation.folder, target))


def _load_target(implementation: Implementation) -> Any:
    """The module that the target names, or the object in it."""
    place, _, name = implementation.target.partition(":")
    with on_the_path(implementation), np.errstate():  # which a module may set
        if place.endswith(".py"):
            target: Any = _from_file(_file(implementation), place)
        else:
            target = _imported(place)
    owner, part = target, ""
    for part in name.split(".") if name else ():
        owner, target = target, _member(target, part, place)
    if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, part, None)):
        return MethodOf(owner, part)
    return target


@contextmanager
def on_the_path(implementation: Implementation) -> Iterator[None]:
    """Inside the block, modules next to the user's file, next to the spec, and on paths that the
    file itself added can be imported, also while the layer runs; and the environment has the
    variables of its setup."""
    if implementation.live is not None:
        yield
        return
    folders = [implementation.folder or os.curdir]
    place = implementation.target.partition(":")[0]
    if place.endswith(".py"):
        folders.insert(0, str(_file(implementation).parent))
    environment = implementation.setup.environment
    before, values = list(sys.path), {name: os.environ.get(name) for name in environment}
    sys.path[:0] = [*map(os.path.abspath, folders), *_added_by(implementation, before)]
    os.environ.update(environment)
    try:
        yield
    finally:
        # surroundings that are open put it back at their end, after the layer has run
        sys.path[:] = [
            *before,
            *(_added_by(implementation, before) if surroundings_number() else ()),
        ]
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _added_by(implementation: Implementation, path: Sequence[str]) -> list[str]:
    """The paths that the files of the layer and of its setup added to this `path`."""
    folders = (f for file in implementation.files for f in _added.get(Path(file).resolve(), ()))
    return [folder for folder in dict.fromkeys(folders) if folder not in path]


def _file(implementation: Implementation) -> Path:
    return Path(implementation.file).resolve()


def _from_file(path: Path, shown: str) -> ModuleType:
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise EngineFault(f"cannot read {shown}: {error.strerror}") from error
    kept = _modules.get(path)
    if kept is not None and kept[0] == changed:
        return kept[1]
    # The stem alone may be the name of a module that is imported elsewhere.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NoSuchLayer(f"{shown} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there for the module of a class
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _modules[path] = changed, module
    _added[path] = [folder for folder in sys.path if folder not in before]
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise  # the module is there, and one that it imports is not
        raise NoSuchLayer(f"there is no module `{error.name}`") from error


def not_callable(layer: Any, implementation: Implementation) -> NoSuchLayer:
    """The exception for a target that is not a layer."""
    message = f"{implementation.target} is of type {type(layer).__name__}, which cannot be called"
    is_pair = all(callable(getattr(layer, name, None)) for name in ("forward", "backward"))
    pair = "`forward` and `backward` in NumPy are a layer of the engine `numpy`" if is_pair else ""
    return NoSuchLayer(message, pair or callable_names(layer))


def _member(owner: Any, name: str, place: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        close = difflib.get_close_matches(name, _callables(owner), n=1)
        meant = f"did you mean `{close[0]}`? " if close else ""
        raise NoSuchLayer(f"{place} has no `{name}`", meant + callable_names(owner)) from None


def callable_names(owner: Any) -> str:
    """The names of a module or class that a target may have meant; "" for other objects."""
    if not (inspect.ismodule(owner) or inspect.isclass(owner)):
        return ""
    known = _callables(owner)
    more = ", ..." if len(known) > _LISTED else ""
    return f"it has: {', '.join(known[:_LISTED])}{more}" if known else "it has no layer"


def _callables(owner: Any) -> list[str]:
    """The public names of a module or class that can be called. Imported names come last."""
    attributes = {name: getattr(owner, name, None) for name in dir(owner) if name[0] != "_"}
    own = getattr(owner, "__name__", None)
    return sorted(
        (name for name, value in attributes.items() if callable(value)),
        key=lambda name: getattr(attributes[name], "__module__", own) != own,
    )
