"""The code of a user's layer in a script: its own definitions without the rest of its file, or an
import of that file."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass

_FRAMEWORKS = {"torch": ("torch", "numpy"), "tensorflow": ("tensorflow", "keras", "numpy")}
_JAX = ("jax", "jaxlib", "flax", "equinox", "numpy")
_CALLS = ("forward", "call", "__call__")


class NoScript(Exception):
    """Why no script can show a finding."""


@dataclass(frozen=True, slots=True)
class LayerCode:
    """`source` defines the differentiated function or class, `made` constructs an object called
    `name`, and `call` is its value as an expression of the dictionary `inputs`."""

    source: str
    made: str
    name: str
    call: str


def layer_code(
    layer: Implementation, framework: str, dtype: str, inputs: Sequence[str], seed: int
) -> LayerCode:
    """The code of a layer that a spec names. Raises NoScript."""
    place, _, target = layer.target.partition(":")
    if layer.setup.imports or layer.setup.environment:
        raise NoScript("its layer needs a setup")
    if not place.endswith(".py") or not target or any("[" in name for name in inputs):
        raise NoScript("its layer is no function or class of one file")
    tree = ast.parse(Path(layer.file).read_text("utf-8"))
    root = target.partition(".")[0]
    node = next((one for one in tree.body if root in _bound(one)), None)
    if node is None:
        raise NoScript(f"{place} does not define {root}")
    source = source_of(layer, tree, (root,), framework)
    kind = _Kind(layer, target, lineage(tree, node) if target == root else ())
    seeds = framework == "torch" and ("rand" in source or "dropout" in source or kind.is_made)
    seeded = f"torch.manual_seed({seed})" if seeds else ""
    made = "\n".join(line for line in (seeded, kind.made(framework, dtype)) if line)
    if seeded and not kind.is_made:  # what the file makes may draw numbers
        source = f"{seeded}\n\n{source}"
    return LayerCode(source, made, kind.name, kind.call(inputs))


def source_of(
    layer: Implementation, tree: ast.Module, roots: tuple[str, ...], framework: str
) -> str:
    """The statements of the module that define `roots`, or an import of them."""
    needed = _needed_statements(tree, roots)
    is_own = all(_is_known(one, framework) for one in needed)
    return "\n\n".join(map(ast.unparse, needed)) if is_own else _imported(Path(layer.file), roots)


def lineage(tree: ast.Module, node: ast.stmt) -> tuple[ast.stmt, ...]:
    """The definition, followed by its base classes from the same module, nearest first."""
    classes, bases = [node], node.bases if isinstance(node, ast.ClassDef) else []
    for name in map(ast.unparse, bases):
        for one in tree.body:
            if isinstance(one, ast.ClassDef) and one.name == name and one is not node:
                classes += lineage(tree, one)
    return tuple(classes)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module binds."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (one.asname or one.name.partition(".")[0] for one in node.names)
        case _:
            stored = (one for one in ast.walk(node) if isinstance(one, ast.Name))
            yield from (one.id for one in stored if isinstance(one.ctx, ast.Store))


def _needed_statements(tree: ast.Module, roots: tuple[str, ...]) -> list[ast.stmt]:
    """The statements of the module, in order, that bind `roots`, those that they depend on, and
    those that extend them, as `defvjp` adds a rule to a custom derivative."""
    imports = (node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    modules = {name for node in imports for name in _bound(node)}
    wanted, seen = set(roots), set[str]()
    places: set[int] = set()
    while wanted - seen:
        name = (wanted - seen).pop()
        seen.add(name)
        for place, node in enumerate(tree.body):
            is_about = name in _bound(node) or (
                name not in modules and name in _registered_with(node)
            )
            if is_about and place not in places:
                places.add(place)
                wanted |= _names_in(node)
    return [tree.body[place] for place in sorted(places)]


def _registered_with(node: ast.stmt) -> Iterator[str]:
    """The functions of the module that a statement registers something with: `f.defvjp(...)`,
    `@f.defjvp`, `register(f)`."""
    match node:
        case ast.Expr(value=ast.Call()):
            yield from _names_in(node)
        case ast.FunctionDef():
            for decorator in node.decorator_list:
                yield from _names_in(decorator)


def _names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _is_known(node: ast.stmt, framework: str) -> bool:
    """Whether a statement imports only the framework or Python's own modules, or is not an
    import."""
    known = {*sys.stdlib_module_names, *_FRAMEWORKS.get(framework, _JAX)}
    match node:
        case ast.Import():
            return all(one.name.partition(".")[0] in known for one in node.names)
        case ast.ImportFrom():
            return not node.level and (node.module or "").partition(".")[0] in known
    return True


def _imported(path: Path, roots: tuple[str, ...]) -> str:
    folder = os.path.abspath(path.parent)
    return "\n".join(
        (
            f"# The layer is imported from {path.name}: this script needs that file, and what the",
            "# file imports.",
            f"sys.path.insert(0, {folder!r})",
            f"from {path.stem} import {', '.join(roots)}",
        )
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """What kind of object a target is according to its definition, the first of `lineage`; without
    a definition, an attribute of another object."""

    layer: Implementation
    target: str
    lineage: tuple[ast.stmt, ...]

    @property
    def node(self) -> ast.stmt | None:
        return self.lineage[0] if self.lineage else None

    @property
    def is_made(self) -> bool:
        """Whether the target is a class, and the layer an object of it."""
        return isinstance(self.node, ast.ClassDef) and not self._is_function_of_autograd

    @property
    def _is_function_of_autograd(self) -> bool:
        classes = (one for one in self.lineage if isinstance(one, ast.ClassDef))
        bases = (ast.unparse(base) for one in classes for base in one.bases)
        return any(base.endswith("Function") for base in bases)

    @property
    def name(self) -> str:
        """The name that is called."""
        is_function = isinstance(self.node, ast.FunctionDef) and _placed(self.node)
        return self.target if is_function else "layer"

    def made(self, framework: str, dtype: str) -> str:
        """The lines that construct the object, if there are any."""
        name = self.target
        if name == self.name:
            return ""
        if self._is_function_of_autograd:
            return f"layer = {name}.apply"
        if isinstance(self.node, ast.FunctionDef) and not _placed(self.node):
            return f"layer = {name}()"
        if not self.is_made:
            return f"layer = {name}"
        args = [*map(repr, self.layer.args)]
        args += [f"{key}={value!r}" for key, value in self.layer.kwargs.items()]
        moved = f".to(torch.{dtype})" if framework == "torch" else ""
        before = f"tf.keras.backend.set_floatx({dtype!r})\n" if framework == "tensorflow" else ""
        return f"{before}layer = {name}({', '.join(args)}){moved}"

    def call(self, inputs: Sequence[str]) -> str:
        """The call as in `engines.layer.binding`: each input at the position of its parameter.
        Inputs after the first parameter that keeps its default are passed by name. The additional
        arguments of the spec follow. (TensorFlow's `custom_gradient` ignores the gradients of
        keyword arguments.)"""
        parameters = self._call_parameters()
        positional = [f"inputs[{name!r}]" for name in inputs]
        named: list[str] = []
        args = [] if self.is_made else [*map(repr, self.layer.args)]
        kwargs = {} if self.is_made else dict(self.layer.kwargs)
        if parameters is not None and set(inputs) <= parameters.keys():
            positional, free, in_place = [], iter(args), True
            for name, has_place in parameters.items():
                given = f"inputs[{name!r}]" if name in inputs else ""
                if name in kwargs and not given:
                    given = repr(kwargs.pop(name))
                given = given or (next(free, "") if has_place else "")
                in_place &= bool(given) or self._is_function_of_autograd
                if given and in_place and has_place:
                    positional.append(given)
                elif given:
                    named.append(f"{name}={given}")
            args = [*free]
        named += [f"{key}={value!r}" for key, value in kwargs.items()]
        return f"{self.name}({', '.join([*positional, *args, *named])})"

    def _call_parameters(self) -> dict[str, bool] | None:
        """The parameters of the callable, and whether each is positional; None if they are
        unknown."""
        match self.node:
            case ast.FunctionDef():
                return _placed(self.node) or None
            case ast.ClassDef():
                methods = methods_of(self.lineage)
                call = next((methods[name] for name in _CALLS if name in methods), None)
                if call is None:
                    return None
                static = self._is_function_of_autograd
                skip = "setup_context" not in methods if static else True
                return dict([*_placed(call).items()][int(skip) :])
        return None


def methods_of(lineage: tuple[ast.stmt, ...]) -> dict[str, ast.FunctionDef]:
    """The methods of a class, the first of its lineage, including inherited ones."""
    return {
        one.name: one
        for node in reversed(lineage)
        for one in getattr(node, "body", ())
        if isinstance(one, ast.FunctionDef)
    }


def _placed(node: ast.FunctionDef) -> dict[str, bool]:
    """The parameters, and whether each is positional or keyword-only."""
    placed = (*node.args.posonlyargs, *node.args.args)
    return {
        **{one.arg: True for one in placed},
        **{one.arg: False for one in node.args.kwonlyargs},
    }
