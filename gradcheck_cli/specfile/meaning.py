"""Turns the keys of a document into a spec, or reports every mistake in them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Keys
from typing import Any

import numpy as np
from pydantic_core import ValidationError

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.layer import as_program
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.synonyms import nearest
from gradcheck_cli.formula import Argument, parse, used_inputs
from gradcheck_cli.specfile import model, problems, settings
from gradcheck_cli.specfile.collect import Collector, Path, listed, locate
from gradcheck_cli.specfile.input_model import COMPLEX_TYPES
from gradcheck_cli.specfile.inputs import Inputs, read_inputs
from gradcheck_cli.specfile.layers import read_designs, read_implementations, read_model
from gradcheck_cli.specfile.scalar_place import ScalarPlace
from gradcheck_cli.specfile.values import number
from gradcheck_cli.specfile.yaml_values import Scalar


def known_keys() -> list[str]:
    return list(model.spec_schema()["fields"])


def _floating(inputs: Inputs) -> list[str]:
    """The inputs that are differentiated unless `wrt` says otherwise."""
    return [name for name, found in inputs.base.items() if found and found.requires_grad]


def _identity(data: Keys[str, Any]) -> str:
    """An identifier that does not change if the file is renamed: the name of the spec, or else its
    content. Of layers only their names count, because their files may be renamed, too."""
    if "name" in data:
        return str(data["name"])
    forms = data.get("implementations", {})
    targets = {
        engine: (form["target"] if isinstance(form, dict) else form).rpartition(":")[2]
        for engine, form in forms.items()
    }
    checked = [data.get(key) for key in ("inputs", "points", "constants", "model")]
    return repr((checked, targets))


class Meaning:
    """The meaning of a document: first its schema is checked, then its values, then the formula
    over them."""

    def __init__(self, collector: Collector, data: dict[str, Any], seed: int) -> None:
        self.collector = collector
        self.seed = seed
        self.broken_inputs: set[str] = set()
        self.given = data
        self.data = self._valid_part(data)

    def _valid_part(self, data: dict[str, Any]) -> dict[str, Any]:
        """The part of the data that obeys the schema. The rest is reported and left out."""
        try:
            model.validator().validate_python(data)
        except ValidationError as error:
            bad = problems.report(error, self.collector, model.spec_schema())
        else:
            return data
        kept = dict(data)
        for path in bad:
            if path[0] == "inputs" and len(path) > 1 and path[1] in data["inputs"]:
                self.broken_inputs.add(str(path[1]))
            else:
                kept.pop(str(path[0]), None)
        return kept

    def spec(self, default_name: str) -> Spec | None:
        data, collector = self.data, self.collector
        constants = self._constants()
        inputs: Inputs | None = None
        if "inputs" in data:
            inputs = read_inputs(data, self.broken_inputs, collector, self.seed)
            self._names(inputs, constants)
            self._real(inputs)
        self._texts()
        choice = settings.read_settings(data, inputs, collector)
        if "implementations" in data:
            return self._layer_spec(default_name, inputs, constants, choice)
        has_either = not self.given.keys().isdisjoint(("model", "implementations"))
        if not has_either and not self._misspelt("model", "implementations"):
            help = "model: a formula; implementations: layers, by engine"
            message = "the key `model` or `implementations` is missing"
            collector.add(message, ("model",), help=help)
        if "by_design" in data:
            message = "`by_design` is for layers: a formula uses `stop_gradient`"
            collector.add(message, ("by_design",), at_key=True)
        if "setup" in data:
            message = "`setup` is for layers: a formula runs no user code"
            collector.add(message, ("setup",), at_key=True)
        wrt = self._wrt(inputs) if inputs is not None else ()
        program = self._program(inputs, constants, wrt)
        if program is None or inputs is None or collector.errors:
            return None
        return self._spec(default_name, "model", inputs, program=program, wrt=wrt, **choice)

    def _misspelt(self, *keys: str) -> bool:
        """Whether an unknown key, which was reported, may be a misspelt required key."""
        return any(nearest(str(key), keys) for key in self.given if key not in known_keys())

    def _layer_spec(
        self,
        default_name: str,
        inputs: Inputs | None,
        constants: dict[str, bool | int | float | None],
        choice: dict[str, Any],
    ) -> Spec | None:
        """A spec about layers. What they depend on, and shapes, are known only when they run."""
        data, collector = self.data, self.collector
        implementations = read_implementations(data, collector)
        designs = read_designs(data, list(data["implementations"]), collector)
        if "train" in data:
            collector.add("`train` needs a formula, not a layer", ("train",), at_key=True)
        if inputs is not None:  # `wrt` may also name parameters of the layer
            self._finite(data.get("wrt") or _floating(inputs), inputs)
        if inputs is None or collector.errors:
            return None
        model = read_model(collector, constants, self._arguments(inputs))
        if collector.errors:
            return None
        shapes = {name: entry.value.shape for name, entry in inputs.points[0].items()}
        return self._spec(
            default_name,
            "implementations",
            inputs,
            program=as_program(implementations[0], shapes, ()),
            wrt=tuple(data.get("wrt", ())),
            implementations=implementations,
            by_design=designs,
            model=model,
            constants={n: c for n, c in constants.items() if c is not None},
            power=data.get("power"),
            **choice,
        )

    def _spec(self, default_name: str, unnamed: str, inputs: Inputs, **own: Any) -> Spec:
        """A spec with the fields that formulas and layers share. Its place is its name, or else the
        key `unnamed`."""
        data, collector = self.data, self.collector
        key, value = locate(collector.root, ("name",) if "name" in data else (unnamed,))
        assert key is not None
        return Spec(
            name=data.get("name", default_name),
            source=collector.source,
            span=collector.span(value if "name" in data else key),
            points=tuple(inputs.points),
            description=data.get("description", ""),
            pointed=inputs.pointed,
            identity=_identity(data),
            **own,
        )

    def _constants(self) -> dict[str, bool | int | float | None]:
        """The constants that are numbers. A constant with a mistake is None, so that the formula
        reports no further mistakes. Array constants are read like inputs."""
        return {
            name: number(("constants", name), self.collector)
            for name, form in self.data.get("constants", {}).items()
            if not isinstance(form, list) or "implementations" in self.given
        }

    def _names(self, inputs: Inputs, constants: Keys[str, object]) -> None:
        """Reports names with two meanings, and names that are words of the formula language."""
        every = [*constants, *inputs.constants]
        for section, names in (("inputs", inputs.base), ("constants", every)):
            for name in list(names):
                path: Path = (section, name)
                if name in settings.RESERVED or name.startswith("__"):
                    message = f"`{name}` is reserved in formulas: choose another name"
                    self.collector.add(message, path, at_key=True)
                    if section == "inputs":
                        inputs.base[name] = None  # no formula can use it: that is reported already
                elif "." in name and "implementations" not in self.given:
                    message, help = problems.not_a_name(name)
                    self.collector.add(message, path, at_key=True, help=help)
                    inputs.base[name] = None
                elif section == "constants" and name in inputs.base:
                    message = f"`{name}` is already an input"
                    self.collector.add(message, path, at_key=True)

    def _real(self, inputs: Inputs) -> None:
        """Reports complex inputs of a formula."""
        name = next((n for n, one in inputs.base.items() if one and one.is_complex), None)
        if name is None or "model" not in self.data:
            return
        stated = any(dtype in COMPLEX_TYPES for dtype in self.data.get("dtypes", ()))
        message = f"formulas compute with real numbers, but `{name}` is complex"
        help = "a layer may have complex inputs; in a formula, make the two parts separate inputs"
        path: Path = ("dtypes",) if stated else ("inputs", name)
        self.collector.add(message, path, at_key=True, help=help)

    def _texts(self) -> None:
        """Reports control characters in texts that reports print."""
        for key in ("name", "description"):
            text = self.data.get(key, "")
            if not text.replace("\n", " " if key == "description" else "\n").isprintable():
                self.collector.add(f"`{key}` contains control characters", (key,))

    def _wrt(self, inputs: Inputs) -> tuple[str, ...]:
        """The inputs to differentiate: float inputs that do not set `requires_grad` to false."""
        stated = self.data.get("wrt")
        if stated is None:
            names = _floating(inputs)
            if not names and None not in inputs.base.values():
                message = "no input is a floating-point number with `requires_grad`"
                help = "one input needs a floating-point dtype without `requires_grad: false`"
                self.collector.add(
                    message,
                    ("inputs",),
                    at_key=True,
                    help=help,
                    code=Codes.NOTHING_TO_DIFFERENTIATE,
                )
        else:
            names = settings.floating_inputs(stated, inputs, ("wrt",), self.collector)
        self._finite(names, inputs)
        return tuple(names)

    def _finite(self, names: Iterable[str], inputs: Inputs) -> None:
        """Reports differentiated inputs that are nan, because a gradient needs a point. Infinity is
        allowed: a program may have a gradient there, for example behind a mask."""
        for index, point in enumerate(inputs.points):
            for name in names:
                bad = np.isnan(point[name].value) if name in point else np.zeros(())
                if not np.any(bad):
                    continue
                at_point: Path = ("points", index, name)
                given = inputs.pointed and name in self.data["points"][index]
                path = at_point if given else ("inputs", name)
                value = float(point[name].value[bad].flat[0])
                message = f"`{name}` contains {value}, where there is no gradient to check"
                help = f"requires_grad: false makes `{name}` data"
                self.collector.add(message, path, help=help)

    def _program(
        self,
        inputs: Inputs | None,
        constants: Keys[str, bool | int | float | None],
        wrt: tuple[str, ...],
    ) -> Program | None:
        """The formula over these inputs. Its mistakes are reported with their places in the
        file."""
        if inputs is None or "model" not in self.data:
            return None
        _, tree = locate(self.collector.root, ("model",))
        assert isinstance(tree, Scalar)
        place = ScalarPlace(tree, self.collector.source.text, self.collector.lines)
        arguments = self._arguments(inputs)
        parsed = parse(tree.text, place, constants=constants, inputs=arguments)
        told = {error.code for error in self.collector.errors}
        for error in parsed.errors:
            if (
                error.code == Codes.NOTHING_TO_DIFFERENTIATE
                and Codes.NOTHING_TO_DIFFERENTIATE in told
            ):
                continue  # the inputs were blamed for it already
            self.collector.add_at(error.code, error.message, error.span, ("model",), error.help)
        if parsed.program is not None:
            self._uses(parsed.program, wrt)
            settings.check_training(self.data, parsed.program, wrt, self.collector)
        return parsed.program

    def _arguments(self, inputs: Inputs) -> dict[str, Argument | None]:
        """The shapes and kinds of the inputs for the formula. An input that is known by name only
        is None."""
        return {
            name: None
            if entry is None
            else Argument(entry.value.shape, inputs.kind(name) or "float")
            for name, entry in (inputs.base | inputs.constants).items()
        }

    def _uses(self, program: Program, wrt: tuple[str, ...]) -> None:
        """Reports an output that does not depend on the differentiated inputs."""
        used = used_inputs(program)
        unused = [name for name in wrt if name not in used]
        if wrt and len(unused) == len(wrt):
            message = (
                f"the output depends on none of {listed(wrt)}: there is nothing to differentiate"
            )
            self.collector.add(
                message, ("model",), at_key=True, code=Codes.NOTHING_TO_DIFFERENTIATE
            )
            return
        for name in unused:
            message = f"the output does not depend on `{name}`"
            help = f"use `{name}` in the formula, remove it, or set requires_grad: false"
            self.collector.add(message, ("inputs", name), at_key=True, help=help)
