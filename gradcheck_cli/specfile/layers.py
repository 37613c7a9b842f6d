"""What a spec says about layers that somebody wrote."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from gradcheck_cli.domain.layer import STRAIGHT_THROUGH, Implementation, Surrogate, word_of
from gradcheck_cli.domain.spec import Model
from gradcheck_cli.formula import BUILT_IN, Argument, parse
from gradcheck_cli.specfile.collect import Collector, Path, locate
from gradcheck_cli.specfile.scalar_place import ScalarPlace
from gradcheck_cli.specfile.settings import check_engine
from gradcheck_cli.specfile.text import STDIN
from gradcheck_cli.specfile.yaml_values import Scalar

HEADERS = (".hpp", ".h", ".hh", ".hxx")
FORMULAS_ONLY = ("train", "order")


def read_implementations(
    data: Mapping[str, Any], collector: Collector
) -> tuple[Implementation, ...]:
    """The implementations of a document, in its order; mistakes go to the collector."""
    shown = collector.source.path
    folder = "" if shown == STDIN else str(FilePath(shown).parent)
    found = []
    for engine, form in data["implementations"].items():
        path: Path = ("implementations", engine)
        check_engine(engine, path, collector, at_key=True)
        table = form if isinstance(form, dict) else {"target": form}
        where = (*path, "target") if isinstance(form, dict) else path
        _check_target(table["target"], folder, where, collector)
        found.append(
            Implementation(
                engine=engine,
                target=table["target"],
                folder=folder,
                span=collector.span(locate(collector.root, where)[1]),
                args=tuple(table.get("args", ())),
                kwargs=table.get("kwargs", {}),
                surrogates=_surrogates(table, path, collector),
            )
        )
    return tuple(found)


def _surrogates(
    table: Mapping[str, Any], path: Path, collector: Collector
) -> tuple[Surrogate, ...]:
    form = table.get("surrogate")
    if form is None:
        return ()
    where: Path = (*path, "surrogate", "backward")
    tree = locate(collector.root, where)[1]
    span = collector.span(tree)
    if form["backward"] != STRAIGHT_THROUGH:
        assert isinstance(tree, Scalar)
        place = ScalarPlace(tree, collector.source.text, collector.lines)
        for error in parse(tree.text, place).errors:
            if error.code == "GC904":  # names and shapes are known when the layer runs
                collector.add_at(error.code, error.message, error.span, where, error.help)
    return (Surrogate(form["backward"], form["reason"], span, form.get("input")),)


def read_model(
    collector: Collector,
    constants: Mapping[str, bool | int | float | None],
    inputs: Mapping[str, Argument | None],
) -> Model | None:
    """The formula beside implementations. Names that may be those of parameters are known when the
    layer is; every other mistake goes to the collector."""
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
    """Names that a formula reads and neither sets nor calls."""
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
    """A file that is not there is told before anything runs; names are known to the worker."""
    place, separator, name = target.partition(":")
    suffix = FilePath(place).suffix
    if suffix == ".py" or suffix in HEADERS:
        if not FilePath(folder, place).expanduser().is_file():
            collector.add("GC903", f"there is no file {place}", path, help=_from_where(folder))
        if separator and not _is_name(name, suffix):
            message = f"`{name}` is not a name in {place}"
            collector.add("GC903", message, path, help=f"path{suffix}:name")
        return
    parts = [*place.split("."), *name.split(".")] if separator else [""]
    if not all(part.isidentifier() for part in parts):
        message = f"`{target}` does not say where the layer is"
        collector.add("GC903", message, path, help="path.py:name, or package.module:name")


def _is_name(name: str, suffix: str) -> bool:
    """In C++ also `layer<T>`, of which T is told, and `Layer{}`, an object that is called."""
    if suffix in HEADERS:
        name = name.removesuffix("{}").removesuffix("<T>").replace("::", ".")
    return all(part.isidentifier() for part in name.split("."))


def _from_where(folder: str) -> str:
    return f"paths are relative to the spec's folder, {folder or 'here'}"
