"""A layer named on the command line, its inputs, and the spec made from them, for `layer`, `lift`
and `init`."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.records import dataclass

WRITTEN_IN = ("torch", "tensorflow", "jax", "numpy", "eigen")
"""Engines for which layers are written."""

_LIBRARIES = {
    "torch": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "jax": "jax",
    "flax": "jax",
    "equinox": "jax",
    "haiku": "jax",
}
"""The engine that runs code written with a library."""

_SHAPE = re.compile(r"^\d+([xX]\d+)*$")
_SIZES = re.compile(r"^\d+(\s*,\s*\d+)+$")


@dataclass(frozen=True, slots=True)
class LayerTarget:
    """TARGET and its options. `inputs`, `args` and `kwargs` are as typed."""

    target: str
    inputs: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    kwargs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        name = self.target.rpartition(":")[2].rpartition("/")[2].removesuffix(".py")
        return name or "layer"  # the spec then says what is wrong with the target


def layer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options that complete a TARGET."""
    for option in (
        click.option(
            "--kwarg",
            "kwargs",
            multiple=True,
            metavar="NAME=VALUE",
            help="A keyword argument of the constructor or, if the constructor has none with this "
            "name, of the call: bias=false.",
        ),
        click.option(
            "--arg",
            "args",
            multiple=True,
            metavar="VALUE",
            help="A positional argument: of the constructor, if the layer is a class; of a "
            "function, after its inputs. May be repeated, in order.",
        ),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="NAME=VALUE",
            help="An input: a shape (x=2x3, w=3), numbers (x=[0.5, 1], x=2.0), or anything that "
            "a spec can say about it ('x={shape: [3], distribution: uniform}'). Repeat it for "
            "each input.",
        ),
    ):
        function = option(function)
    return function


def lift_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that lifts layers with the options of a TARGET, `--engine` and
    `--seed`."""
    engine = click.option(
        "--engine",
        metavar="ENGINE",
        help="Framework of the layer; default: the one that its code imports, or all layers of "
        "a spec.",
    )
    seed = click.option("--seed", type=int, default=0, help="Seed of random numbers; default: 0.")
    return engine(layer_options(seed(function)))


def is_spec(target: str) -> bool:
    return target == "-" or target.endswith((".yaml", ".yml"))


def written_in(target: str, folder: str = "") -> str:
    """The engine for which a target is written, by the imports of its code, which is not run.

    Raises UsageError if the imports do not decide.
    """
    place = target.partition(":")[0]
    if place.endswith((".hpp", ".h", ".hh", ".hxx")):
        return "eigen"
    from gradcheck_cli.specfile.project_files import (
        file_of,
        imported_files,
        imports,
        named_by,
        without_backward,
    )

    file = file_of(target, folder)
    if file is None:
        return _only_framework(target, [_library(place)])
    _refuse_other_files(file, place)
    named, has_backward = named_by(target, folder), not without_backward(target, folder)
    numpy_alone = "numpy" in named.libraries and not named.libraries & _LIBRARIES.keys()
    if numpy_alone and not named.files and has_backward:
        return "numpy"  # regardless of other imports of its file
    own = imports(file, folder).libraries
    if any(library in _LIBRARIES for library in own):
        return _only_framework(target, own)
    libraries = [
        name for one in imported_files([target], folder) for name in imports(one, folder).libraries
    ]
    return _only_framework(target, libraries)


def _library(place: str) -> str:
    """The library that has this module. Raises UsageError if there is no such file or module."""
    library = place.partition(".")[0]
    if place.endswith(".py"):
        raise UsageError(f"there is no file {place}")
    if library not in _LIBRARIES and not _is_module(library):
        raise UsageError(f"there is no module {library}", "or FILE.py:NAME for a file")
    return library


def _refuse_other_files(file: str, place: str) -> None:
    """Raise UsageError for a file that is not the one of `place`, or not Python."""
    path = Path(file)
    if path.name != os.path.basename(place):  # a module
        name = path.parent.name if path.stem == "__init__" else path.stem
        if name != place.rpartition(".")[2]:
            raise UsageError(f"there is no module {place}")
    elif path.suffix == ".ipynb":
        raise UsageError(
            f"{place} is a notebook: check its layers in it, with gradcheck_cli.check",
            f"or write its code to a file: jupyter nbconvert --to script {place}",
        )
    elif path.suffix != ".py":
        raise UsageError(f"{place} is not a Python file", "FILE.py:NAME")
    try:
        ast.parse(path.read_bytes(), place)
    except SyntaxError as error:
        raise UsageError(f"{place}, line {error.lineno}: {error.msg}") from None
    except ValueError as error:  # null bytes
        raise UsageError(f"{place}: {error}") from None


def _is_module(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _only_framework(target: str, libraries: Iterable[str]) -> str:
    frameworks = {_LIBRARIES[name]: None for name in sorted(libraries) if name in _LIBRARIES}
    if not frameworks and "numpy" in libraries:
        return "numpy"
    if len(frameworks) == 1:
        return next(iter(frameworks))
    why = f"imports {' and '.join(frameworks)}" if frameworks else "imports no known framework"
    raise UsageError(
        f"{target} {why}: which one is it written in?", f"--engine {'|'.join(WRITTEN_IN)}"
    )


def spec_of(
    layer: LayerTarget,
    engines: Sequence[str],
    settings: Mapping[str, Any] | None = None,
    folder: str = "",
) -> str:
    """The text of the spec that checks the layer. `settings` are further keys. The target is
    written relative to `folder`, where the spec will be. Raises UsageError."""
    inputs = [f"  {name}: {_value(text)}" for name, text in map(_pair_of("--input"), layer.inputs)]
    if not inputs:
        raise UsageError(
            "the layer needs an input to run", "--input x=2x3, or --input 'x=[0.5, 1]'"
        )
    kwargs = (f"{name}: {text}" for name, text in map(_pair_of("--kwarg"), layer.kwargs))
    args = [_one_value(f"--arg {text!r}", text) for text in layer.args]
    parts = {
        "target": json.dumps(_relative(layer.target, folder)),
        "args": f"[{', '.join(args)}]" if args else "",
        "kwargs": f"{{{', '.join(kwargs)}}}" if layer.kwargs else "",
    }
    form = "{" + ", ".join(f"{key}: {text}" for key, text in parts.items() if text) + "}"
    lines = [f"name: {json.dumps(layer.name)}", "inputs:", *inputs, "implementations:"]
    lines += [f"  {engine}: {form}" for engine in engines]
    lines += [f"{key}: {json.dumps(value)}" for key, value in (settings or {}).items()]
    return "\n".join(lines) + "\n"


def _pair_of(flag: str) -> Callable[[str], tuple[str, str]]:
    def pair(given: str) -> tuple[str, str]:
        name, separator, value = given.partition("=")
        if flag == "--input" and _SIZES.match(value.strip()):
            sizes = [size.strip() for size in value.split(",")]
            raise UsageError(
                f"{flag} {given!r} is neither a shape nor numbers",
                f"a shape is {name}={'x'.join(sizes)}, numbers are {name}=[{', '.join(sizes)}]",
            )
        missing = "" if separator and value.strip() else "value"
        missing = missing if name.strip() else "name"
        if missing:
            example = "x=2x3" if flag == "--input" else "bias=false"
            raise UsageError(f"{flag} {given!r} has no {missing}", f"write NAME=VALUE: {example}")
        return name.strip(), _one_value(f"{flag} {given!r}", value.strip())

    return pair


def _one_value(argument: str, text: str) -> str:
    """The text, if it is one value of YAML, also between others. Raises UsageError with the
    argument."""
    from gradcheck_cli.specfile.yaml_tree import documents
    from gradcheck_cli.specfile.yaml_values import as_python

    for whole in (f"- {text}", f"[{text}]"):
        (document, *more) = documents(whole)
        problem = next(iter(document.problems), None)
        if problem is not None:
            raise UsageError(f"{argument}: {problem.message}", problem.help)
        assert document.root is not None
        if more or len(as_python(document.root)) != 1:
            help = "a list needs brackets: [0.5, 1]; text with commas needs quotes"
            raise UsageError(f"{argument} is more than one value", help)
    return text


def _value(text: str) -> str:
    """The value of an input in a spec. A shape means numbers from the normal distribution."""
    if not _SHAPE.match(text):
        return text
    sizes = ", ".join(str(int(size)) for size in text.lower().split("x"))
    return f"{{shape: [{sizes}], distribution: normal}}"


def _relative(target: str, folder: str) -> str:
    place, separator, name = target.partition(":")
    if not os.path.isfile(os.path.expanduser(place)) or not folder:
        return target
    return os.path.relpath(os.path.expanduser(place), folder) + separator + name
