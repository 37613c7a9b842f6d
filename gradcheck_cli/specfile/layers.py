"""The keys of a spec that describe layers."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.implementation import (
    STRAIGHT_THROUGH,
    ByDesign,
    Implementation,
    Setup,
    Surrogate,
)
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.place import STDIN, Span
from gradcheck_cli.domain.spec import Model
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.formula import BUILT_IN, Argument, parse
from gradcheck_cli.specfile.collect import Collector, Path, listed, locate, visible
from gradcheck_cli.specfile.scalar_place import ScalarPlace
from gradcheck_cli.specfile.settings import check_engine
from gradcheck_cli.specfile.stretches import NoStretch, is_file, stretch
from gradcheck_cli.specfile.yaml_values import Scalar

HEADERS = (".hpp", ".h", ".hh", ".hxx")
WHOLE = frozenset({"numpy", "eigen"})  # engines whose layers have one derivative, from end to end


def read_implementations(
    data: Mapping[str, Any], collector: Collector
) -> tuple[Implementation, ...]:
    """The implementations of a document, in its order. Mistakes go to the collector."""
    folder = _folder(collector)
    setup = _setup(data.get("setup", {}), folder, collector)
    implementations = []
    for engine, form in data["implementations"].items():
        path: Path = ("implementations", engine)
        check_engine(engine, path, collector, at_key=True)
        table = form if isinstance(form, dict) else {"target": form}
        where = (*path, "target") if isinstance(form, dict) else path
        _check_target(table["target"], folder, where, collector)
        implementations.append(
            Implementation(
                engine=engine,
                target=table["target"],
                folder=folder,
                span=collector.span(locate(collector.root, where)[1]),
                args=tuple(table.get("args", ())),
                kwargs=table.get("kwargs", {}),
                surrogates=_surrogates(table, path, collector),
                setup=setup,
            )
        )
    return tuple(implementations)


def _folder(collector: Collector) -> str:
    """The folder that the paths in the spec are relative to."""
    shown = collector.source.path
    return "" if shown == STDIN else str(FilePath(shown).parent)


def _setup(form: Mapping[str, Any], folder: str, collector: Collector) -> Setup:
    for name, value in form.get("environment", {}).items():
        if "=" in name or "\0" in name + value:
            message = f"`{visible(name)}` cannot be an environment variable with this value"
            collector.add(message, ("setup", "environment", name), at_key=True)
    for index, target in enumerate(form.get("imports", ())):
        place, separator, name = target.partition(":")
        path: Path = ("setup", "imports", index)
        if place.endswith(".py") and not FilePath(folder, place).expanduser().is_file():
            collector.add(f"there is no file {place}", path, help=_path_hint(folder))
        words = [] if place.endswith(".py") else place.split(".")
        words += name.split(".") if separator else []
        if not all(word.isidentifier() for word in words):
            message = f"`{target}` does not say what is imported"
            help = "path.py, package.module, or one of them with :function"
            collector.add(message, path, help=help)
    return Setup(form.get("environment", {}), tuple(form.get("imports", ())))


def _surrogates(
    table: Mapping[str, Any], path: Path, collector: Collector
) -> tuple[Surrogate, ...]:
    form = table.get("surrogate")
    if form is None:
        return ()
    where: Path = (*path, "surrogate", "backward")
    if form["backward"] == STRAIGHT_THROUGH:
        span = collector.span(locate(collector.root, where)[1])
    else:
        span = _check_formula(where, collector)
    return (Surrogate(form["backward"], form["reason"], span, form.get("input")),)


def read_designs(
    data: Mapping[str, Any], engines: Sequence[str], collector: Collector
) -> tuple[ByDesign, ...]:
    """The intended deviations inside of layers. Mistakes go to the collector."""
    folder = _folder(collector)
    designs = []
    for index, form in enumerate(data.get("by_design", ())):
        path: Path = ("by_design", index)
        if not form["reason"].strip() or not form["reason"].isprintable():
            collector.add("the reason is empty, or not one line of text", (*path, "reason"))
        engine, shared = form.get("engine"), index < collector.shared.get("by_design", 0)
        concerned = {engine} if engine else set(engines)
        if shared and not concerned & (set(engines) - WHOLE):
            continue  # for other specs of the file
        if engine is not None and engine not in engines:
            help = f"{did_you_mean(engine, engines)} implementations: {listed(engines)}".strip()
            message = f"there is no implementation for `{engine}`"
            collector.add(message, (*path, "engine"), help=help)
        elif concerned <= WHOLE:
            message = "such a layer has no parts that could be declared separately"
            help = "`surrogate` declares the backward of the layer"
            collector.add(message, path, help=help)
        function, detach = form.get("function", ""), form.get("detach", "")
        if function and not function.isidentifier():
            message = f"`{function}` is not the name of a function or class"
            collector.add(message, (*path, "function"))
        if detach:
            _check_detach(detach, folder, (*path, "detach"), collector)
        if "surrogate" in form:
            _check_formula((*path, "surrogate"), collector)
        where = (*path, "detach" if detach else "function")
        span = collector.span(locate(collector.root, where)[1])
        designs.append(
            ByDesign(form["reason"], span, function, detach, form.get("surrogate"), engine, shared)
        )
    return tuple(designs)


def _check_detach(target: str, folder: str, path: Path, collector: Collector) -> None:
    """Checks a place in a file. The lines of a module are only known after its import."""
    if not is_file(target) and ":" in target:
        return
    try:
        stretch(target, folder)
    except NoStretch as error:
        collector.add(str(error), path, help=error.help)


def _check_formula(where: Path, collector: Collector) -> Span:
    """The place of a surrogate. Its syntax is checked here, its names and shapes when the layer
    runs."""
    tree = locate(collector.root, where)[1]
    if isinstance(tree, Scalar):
        place = ScalarPlace(tree, collector.source.text, collector.lines)
        for error in parse(tree.text, place).errors:
            if error.code == Codes.FORMULA_SYNTAX:
                collector.add_at(error.code, error.message, error.span, where, error.help)
    return collector.span(tree)


def read_model(
    collector: Collector,
    constants: Mapping[str, bool | int | float | None],
    inputs: Mapping[str, Argument | None],
) -> Model | None:
    """The formula beside implementations. Unknown names may be parameters of the layer and are
    checked when it runs; all other mistakes go to the collector."""
    _, tree = locate(collector.root, ("model",))
    if not isinstance(tree, Scalar):
        return None
    place = ScalarPlace(tree, collector.source.text, collector.lines)
    later = dict.fromkeys(_free_names(tree.text) - constants.keys())
    known = {word_of(name): argument for name, argument in inputs.items()}
    parsed = parse(tree.text, place, constants=constants, inputs={**later, **known})
    for error in parsed.errors:
        collector.add_at(error.code, error.message, error.span, ("model",), error.help)
    return Model(tree.text, place)


def _free_names(text: str) -> set[str]:
    """The names that a formula reads, and neither assigns nor calls."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # which the parser tells
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    known = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    known |= {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    known |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    known |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return read - known - BUILT_IN.keys()


def _check_target(target: str, folder: str, path: Path, collector: Collector) -> None:
    """Reports a file that does not exist before anything runs. The worker checks names."""
    place, separator, name = target.partition(":")
    suffix = FilePath(place).suffix
    if suffix == ".py" or suffix in HEADERS:
        if not FilePath(folder, place).expanduser().is_file():
            collector.add(f"there is no file {place}", path, help=_path_hint(folder))
        if separator and not _is_name(name, suffix):
            message = f"`{name}` is not a name in {place}"
            collector.add(message, path, help=f"path{suffix}:name")
        return
    parts = [*place.split("."), *name.split(".")] if separator else [""]
    if not all(part.isidentifier() for part in parts):
        message = f"`{target}` does not say where the layer is"
        collector.add(message, path, help=_with_a_colon(target))


def _with_a_colon(target: str) -> str:
    """`torch.nn:Linear` for `torch.nn.Linear`."""
    module, dot, name = target.rpartition(".")
    if dot and all(part.isidentifier() for part in target.split(".")):
        return f"did you mean `{module}:{name}`?"
    return "path.py:name, or package.module:name"


def _is_name(name: str, suffix: str) -> bool:
    """Whether the text is a name. In C++ `layer<T>`, which names T, and `Layer{}`, an object that
    is called, are names, too."""
    if suffix in HEADERS:
        name = name.removesuffix("{}").removesuffix("<T>").replace("::", ".")
    return all(part.isidentifier() for part in name.split("."))


def _path_hint(folder: str) -> str:
    place = "" if folder in ("", os.curdir) else f" ({folder})"
    return f"paths are relative to the spec's folder{place}"
