"""The inputs of a spec at each of its points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import COMPLEX, Array, as_pairs
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Input
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.specfile import values
from gradcheck_cli.specfile.collect import Collector, Path, listed, locate
from gradcheck_cli.specfile.input_model import INFINITE
from gradcheck_cli.specfile.kinds import KINDS, wrong_shape, wrong_value

_WORDS = {"f": "float", "i": "int", "b": "bool"}
_ONLY_ONCE = ("dtype", "requires_grad", "domain", "kind")


@dataclass(slots=True)
class Inputs:
    """The inputs that could be read. In `base` an input with a mistake is None, so that formulas
    which use it report no further mistakes; so are array constants in `constants`. `points` are the
    points of the spec, constants included; empty after an error."""

    base: dict[str, Input | None]
    constants: dict[str, Input | None] = field(default_factory=dict)
    points: list[Mapping[str, Input]] = field(default_factory=list)
    pointed: bool = False

    def kind(self, name: str) -> str | None:
        """ "float", "int" or "bool"; None if the input could not be read."""
        found = (self.base | self.constants)[name]
        return None if found is None else _WORDS[found.value.dtype.kind]


def read_inputs(
    data: Mapping[str, Any], broken: set[str], collector: Collector, seed: int
) -> Inputs:
    """The inputs of a document. `data` obeys the schema, except for the inputs in `broken`, whose
    mistakes were reported before."""
    is_complex = any(dtype in COMPLEX for dtype in data.get("dtypes", ()))
    reader = _Reader(collector, values.Budget(), seed, is_complex)
    base = {
        name: None if name in broken else reader.base(name, form)
        for name, form in data["inputs"].items()
    }
    constants = {
        name: reader.constant(name, form)
        for name, form in data.get("constants", {}).items()
        if isinstance(form, list)
    }
    inputs = Inputs(base, constants, pointed="points" in data)
    if "points" not in data:
        _complete(base | constants, inputs.points)
    for index, point in enumerate(data.get("points", ())):
        given = dict(base)
        for name, form in point.items():
            path: Path = ("points", index, name)
            if name not in base:
                help = f"{did_you_mean(name, base)} inputs: {listed(base)}".strip()
                collector.add(f"there is no input `{name}`", path, at_key=True, help=help)
            elif reader.allowed(form, path) and (known := base[name]) is not None:
                given[name] = reader.at_point(known, form, path, index + 1)
        _complete(given | constants, inputs.points)
    return inputs


def _complete(given: Mapping[str, Input | None], points: list[Mapping[str, Input]]) -> None:
    """Appends a point if all of its inputs could be read."""
    whole = {name: found for name, found in given.items() if found is not None}
    if len(whole) == len(given):
        points.append(whole)


@dataclass(slots=True)
class _Reader:
    collector: Collector
    budget: values.Budget
    seed: int
    is_complex: bool  # every floating input is complex that does not say otherwise
    dtypes: dict[str, str] = field(default_factory=dict)

    def allowed(self, form: Any, path: Path) -> bool:
        """Whether the input of a point has no keys that only `inputs` may have."""
        given = isinstance(form, dict) and "value" not in form and "kind" in form  # which draws it
        once = [key for key in _ONLY_ONCE if not (given and key == "kind")]
        stray = [key for key in once if isinstance(form, dict) and key in form]
        for key in stray:
            message = (
                f"`{key}` belongs to the input itself, under `inputs`: it is the same at every "
                "point"
            )
            self.collector.add(message, (*path, key), at_key=True)
        return not stray

    def constant(self, name: str, form: list[Any]) -> Input | None:
        """An array under `constants`: data that is the same at every point."""
        value = self._value(name, form, ("constants", name), None, 0)
        if value is not None and value.dtype.kind == "c":
            message = f"formulas compute with real numbers, but `{name}` is complex"
            self.collector.add(message, ("constants", name))
            return None
        return None if value is None else Input(name, value, requires_grad=False)

    def base(self, name: str, form: Any) -> Input | None:
        """One input under `inputs`."""
        path: Path = ("inputs", name)
        about = form if isinstance(form, dict) else {}
        value = self._value(name, form, path, self._dtype(form), 0)
        if value is None:
            return None
        if value.dtype.kind == "c":
            return self._complex(name, form, value, path)
        self.dtypes[name] = about.get("dtype", value.dtype.name)
        low, high = (INFINITE.get(end, end) for end in about.get("domain", (-math.inf, math.inf)))
        floating = value.dtype.kind == "f"
        if not floating and about.get("requires_grad") is True:
            message = f"`{name}` holds {_WORDS[value.dtype.kind]} values, which have no gradient"
            help = "requires_grad: false, or a floating-point dtype"
            self.collector.add(message, (*path, "requires_grad"), help=help)
        requires_grad = floating and about.get("requires_grad", True)
        kind = about.get("kind", "")
        if kind and not self._is_of(kind, value, path):
            return None
        if kind and "domain" in about:
            message = f"`{name}` has a kind, so it cannot have a `domain` as well"
            self.collector.add(message, (*path, "domain"), at_key=True)
        found = Input(name, value, requires_grad, float(low), float(high), self._seed(form), kind)
        return found if self._check_domain(found, path) else None

    def _dtype(self, form: Any) -> str | None:
        """The dtype in which an input is read; None if its numbers determine it."""
        about = form if isinstance(form, dict) else {}
        drawn = "shape" in about and "kind" not in about
        floating = drawn and about.get("distribution", "normal") != "integers"
        usual = "complex128" if self.is_complex and floating else None
        return about.get("dtype", usual)

    def _complex(self, name: str, form: Any, value: Array, path: Path) -> Input | None:
        about = form if isinstance(form, dict) else {}
        for key in ("domain", "kind"):
            if key in about:
                help = "a layer of two real inputs can join them"
                message = f"`{key}` is for real numbers, but `{name}` is complex"
                self.collector.add(message, (*path, key), at_key=True, help=help)
                return None
        self.dtypes[name] = about.get("dtype", "complex128")
        requires_grad = about.get("requires_grad", True)
        seed = self._seed(form)
        return Input(name, as_pairs(value), requires_grad, seed=seed, is_complex=True)

    def _is_of(self, kind: str, value: Array, path: Path) -> bool:
        """Whether the value is of its kind."""
        why = wrong_shape(kind, value.shape)
        if not why and value.dtype.kind != "f":
            why = f"a value of kind {kind} needs floating-point numbers"
        why = why or wrong_value(kind, value)
        if why:
            self.collector.add(why, path)
        return not why

    def at_point(self, base: Input, form: Any, path: Path, point: int) -> Input | None:
        """One input with its value at a point (counted from 1)."""
        value = self._value(base.name, form, path, self.dtypes[base.name], point)
        if value is None:
            return None
        shape = base.value.shape[:-1] if base.is_complex else base.value.shape
        if value.shape != shape:
            wanted = f"but {shape} under `inputs`"
            message = f"`{base.name}` has shape {value.shape} at this point, {wanted}"
            self.collector.add(message, path)
            return None
        kind = form.get("kind", base.kind) if isinstance(form, dict) else base.kind
        if kind != base.kind:
            message = f"`{base.name}` is of kind {base.kind or 'none'} under `inputs`"
            self.collector.add(message, (*path, "kind"))
            return None
        if kind and not self._is_of(kind, value, path):
            return None
        value = as_pairs(value) if base.is_complex else value
        found = replace(base, value=value, seed=self._seed(form))
        return found if self._check_domain(found, path) else None

    def _seed(self, form: Any) -> int | None:
        """The seed of a recipe; None if the value is written out."""
        if not isinstance(form, dict) or "shape" not in form:
            return None
        return int(form.get("seed", self.seed))

    def _value(
        self, name: str, form: Any, path: Path, dtype: str | None, point: int
    ) -> Array | None:
        seed = self._seed(form)
        if seed is None:
            _, tree = locate(self.collector.root, path)
            inner = values.recipe_tree(tree)
            where = path if inner is tree else (*path, "value")
            value = values.parse_array(inner, dtype, where, self.collector)
            if self.is_complex and dtype is None and value is not None and value.dtype.kind == "f":
                value = value.astype(np.complex128)
            fits = value is not None and self.budget.take(value.shape, path, self.collector)
            return value if fits else None
        if not self.budget.take(tuple(form["shape"]), (*path, "shape"), self.collector):
            return None
        stream = [seed, *name.encode(), *([point] if point else [])]
        if "kind" in form:
            shape = tuple(form["shape"])
            why = wrong_shape(form["kind"], shape)
            if why:
                self.collector.add(why, (*path, "shape"))
                return None
            drawn = KINDS[form["kind"]].drawn(np.random.default_rng(stream), shape)
            return values.as_float(drawn, dtype, path, self.collector)
        return values.draw_recipe(form, stream, dtype, path, self.collector)

    def _check_domain(self, found: Input, path: Path) -> bool:
        """Whether every entry lies in the domain of the input."""
        outside = (found.value < found.low) | (found.value > found.high)
        if found.value.dtype.kind == "b" or not outside.any():
            return True
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        entry = "".join(f"[{i}]" for i in index)
        value = found.value[index]
        message = (
            f"{found.name}{entry} = {value:g} is outside the domain [{found.low:g}, {found.high:g}]"
        )
        help = "" if found.seed is None else "choose a distribution that stays inside"
        self.collector.add(message, path, help=help)
        return False
