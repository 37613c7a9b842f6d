"""A NumPy pair as code for a script: a call of its forward, then a call of its backward."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.binding import BadCall
from gradcheck_cli.engines.numpy.pair import OUTPUTS, Convention, Pair, convention
from gradcheck_cli.report.repro.layer_code import (
    LayerCode,
    NoScript,
    lineage,
    methods_of,
    source_of,
)

_PICKED = """gradients = {backward}
if isinstance(gradients, dict):
    keys = ({name!r}, "d" + {name!r}, "d_" + {name!r}, "grad_" + {name!r})
    gradient = next((gradients[key] for key in keys if key in gradients), None)
elif isinstance(gradients, (tuple, list)):
    gradient = gradients[{floating} if len(gradients) == {count} else {place}]
else:
    gradient = gradients"""
_RUN = """
y = {forward}
{settled}
{bar}
{picked}
computed = None if gradient is None else float(np.asarray(gradient)[{index}]{part})
"""
_ONE = """y_bar = np.zeros(np.shape(y), np.asarray(y).dtype)
y_bar[{output}] = {upstream}"""
_ROW = "y_bar = np.array({numbers}, {dtype}).astype(np.asarray(y).dtype).reshape(np.shape(y))"


class _Code(str):
    """An expression that `repr` writes unchanged."""

    __repr__ = str.__str__


@dataclass(frozen=True, slots=True)
class PairCode(LayerCode):
    """`backward` is the call of the backward, which reads `y_bar`. `settled` is the statement
    between the two calls. `order` are the inputs in the order of forward's parameters."""

    backward: str
    settled: str
    order: tuple[str, ...]

    def run(
        self, name: str, bar: str, index: tuple[int, ...], floating: Sequence[str], part: str = ""
    ) -> str:
        """The statements that set `computed`: an entry of the gradient of an input, or its `part`
        (".real", ".imag"). `bar` sets the upstream gradient `y_bar`; `floating` are the inputs that
        may have a gradient. Raises NoScript."""
        picked = self.picked(name, floating)
        return _RUN.format(
            forward=self.call, settled=self.settled, picked=picked, bar=bar, index=index, part=part
        )

    def picked(self, name: str, floating: Sequence[str]) -> str:
        """The statements that set `gradient`, the gradient of an input. Raises NoScript."""
        if name not in self.order:
            raise NoScript(f"`{name}` is no input")
        names = [one for one in self.order if one in floating]
        return _PICKED.format(
            backward=self.backward,
            name=name,
            floating=names.index(name),
            count=len(names),
            place=self.order.index(name),
        )


def one_output(output: tuple[int, ...], upstream: str = "1") -> str:
    """The upstream gradient that is `upstream` at one output and 0 elsewhere."""
    return _ONE.format(output=output, upstream=upstream)


def all_outputs(cotangent: Sequence[float], is_complex: bool) -> str:
    """The upstream gradient with these numbers. For a complex output they are pairs."""
    if not is_complex:
        return _ROW.format(numbers=[*cotangent], dtype="float")
    numbers = [complex(*pair) for pair in zip(cotangent[::2], cotangent[1::2], strict=True)]
    return _ROW.format(numbers=numbers, dtype="complex")


def pair_code(layer: Implementation, inputs: Sequence[str]) -> PairCode:
    """The code of a pair that a spec names. Raises NoScript."""
    place, _, target = layer.target.partition(":")
    if layer.setup.imports or layer.setup.environment or not place.endswith(".py") or not target:
        raise NoScript("its layer is no pair of one file that needs no setup")
    tree = ast.parse(Path(layer.file).read_text("utf-8"))
    halves = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    forward, backward = (f"{target}_{half}" for half in ("forward", "backward"))
    made, owner = "", None
    if forward in halves and backward in halves:
        source = source_of(layer, tree, (forward, backward), "numpy")
        pair = Pair(_stub(halves[forward]), _stub(halves[backward]))
    else:
        node = next(
            (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == target), None
        )
        methods = {} if node is None else methods_of(lineage(tree, node))
        if not {"forward", "backward"} <= methods.keys():
            raise NoScript(f"{place} does not define {target} as a pair")
        source = source_of(layer, tree, (target,), "numpy")
        given = [*map(repr, layer.args), *(f"{k}={v!r}" for k, v in layer.kwargs.items())]
        made, owner = f"layer = {target}({', '.join(given)})", target
        forward, backward = "layer.forward", "layer.backward"
        pair = Pair(_stub(methods["forward"]), _stub(methods["backward"]), owner)
    fixed = ((), {}) if owner else (layer.args, dict(layer.kwargs))
    try:
        called = convention(pair, list(inputs), *fixed)
    except BadCall as error:
        raise NoScript(str(error)) from error
    args, kwargs = called.arguments({name: _Code(f"inputs[{name!r}]") for name in inputs})
    call = f"{forward}({_listed(args, kwargs)})"
    pulled = f"{backward}({_listed(['y_bar', *_rest(called)], called.extra)})"
    return PairCode(source, made, "layer", call, pulled, _unpacking_of(called), called.order)


def _unpacking_of(called: Convention) -> str:
    """The statement that takes `y`, and `cache` if there is one, from the result of forward."""
    if called.style == "cache":
        return "y, cache = y"
    if called.style == "input or cache":
        first = f"inputs[{called.order[0]!r}]"
        return f"y, cache = y if isinstance(y, tuple) else (y, {first})"
    return "y = y[0] if isinstance(y, tuple) else y"


def _rest(called: Convention) -> list[_Code]:
    """The arguments of backward after the upstream gradient. Raises NoScript."""
    if called.style == "upstreams":
        raise NoScript("its backward takes several upstream gradients")
    if called.style == "upstream":
        return []
    if called.style in ("cache", "input or cache"):
        return [_Code("cache")]
    names = called.rest if called.by_name else called.order
    outputs = set(OUTPUTS) - set(called.order)
    return [_Code("y" if name in outputs else f"inputs[{name!r}]") for name in names]


def _listed(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    given = [one if isinstance(one, str) else repr(one) for one in args]
    return ", ".join([*given, *(f"{name}={value!r}" for name, value in kwargs.items())])


def _stub(node: ast.FunctionDef) -> Callable[..., Any]:
    """A function with the same parameters and no body. Whether a default is None is kept, its value
    is not."""
    static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
    given = node.args
    is_method = not static and given.args and given.args[0].arg == "self"
    defaults = [_default(one) for one in given.defaults]
    keywords = [one and _default(one) for one in given.kw_defaults]
    bare = ast.arguments(
        posonlyargs=[ast.arg(one.arg) for one in given.posonlyargs],
        args=[ast.arg(one.arg) for one in given.args[bool(is_method) :]],
        vararg=given.vararg and ast.arg(given.vararg.arg),
        kwonlyargs=[ast.arg(one.arg) for one in given.kwonlyargs],
        kw_defaults=keywords,
        kwarg=given.kwarg and ast.arg(given.kwarg.arg),
        defaults=defaults,
    )
    made = ast.Expression(ast.Lambda(bare, ast.Constant(None)))
    return eval(compile(ast.fix_missing_locations(made), "<stub>", "eval"))


def _default(node: ast.expr) -> ast.expr:
    is_none = isinstance(node, ast.Constant) and node.value is None
    return ast.Constant(None if is_none else 0)
