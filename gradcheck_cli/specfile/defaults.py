"""The defaults for every spec in a file: its first document, if that has the single key `defaults`.

The keys of that document are put into the trees of the others, with their own places, so that
everything that reads a spec knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping as Keys
from dataclasses import field

from pydantic_core import ValidationError

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.specfile import model, problems
from gradcheck_cli.specfile.collect import Collector
from gradcheck_cli.specfile.yaml_values import Mapping, Scalar, Sequence, Tree, plain

KEY = "defaults"
LISTS = ("allow", "by_design")
"""Lists that a spec adds to, and does not replace."""
OF_LAYERS = ("by_design", "power", "setup", "surrogate")
"""Keys that say something about layers; a formula of the same file does without them."""


def is_defaults(root: Tree | None) -> bool:
    """Whether a document holds defaults and no spec."""
    return isinstance(root, Mapping) and list(root.keys) == [KEY]


@dataclass(frozen=True, slots=True)
class Defaults:
    """The keys and values that are in order, as they stand in the file."""

    keys: Keys[str, Scalar] = field(default_factory=dict)
    values: Keys[str, Tree] = field(default_factory=dict)

    def merged(self, root: Mapping) -> Mapping:
        """A spec with the defaults for all that it does not say itself."""
        found = Mapping(root.start, root.end, dict(root.keys), dict(root.values))
        layers = "implementations" in root.keys
        for key, value in self.values.items():
            if key in OF_LAYERS and not layers:
                continue
            own = found.values.get(key)
            if key == "surrogate":
                found.values["implementations"] = self._with_surrogate(
                    found.values["implementations"]
                )
            elif own is None:
                found.keys[key], found.values[key] = self.keys[key], value
            elif key in LISTS and isinstance(own, Sequence) and isinstance(value, Sequence):
                found.values[key] = Sequence(own.start, own.end, [*value.items, *own.items])
        return found

    def _with_surrogate(self, layers: Tree) -> Tree:
        """The implementations; those that have no surrogate of their own get this one."""
        if not isinstance(layers, Mapping):
            return layers
        found = Mapping(layers.start, layers.end, dict(layers.keys))
        for engine, form in layers.values.items():
            table = form
            if isinstance(form, Scalar):
                table = Mapping(form.start, form.end, {"target": form}, {"target": form})
            if isinstance(table, Mapping) and "surrogate" not in table.keys:
                table = Mapping(table.start, table.end, dict(table.keys), dict(table.values))
                table.keys["surrogate"] = self.keys["surrogate"]
                table.values["surrogate"] = self.values["surrogate"]
            found.values[engine] = table
        return found

    def count(self, key: str) -> int:
        """How many entries of a list of a spec come from here: they stand first."""
        value = self.values.get(key)
        return len(value.items) if isinstance(value, Sequence) else 0


def read_defaults(collector: Collector) -> Defaults:
    """The defaults of a document; mistakes go to the collector, and are left out."""
    root = collector.root
    assert isinstance(root, Mapping)
    bad: set[str] = set()
    try:
        model.defaults_validator().validate_python(plain(root))
    except ValidationError as error:
        found = problems.report(error, collector, model.defaults_schema())
        if (KEY,) in found:
            return Defaults()
        bad = {str(path[1]) for path in found}
    table = root.values[KEY]
    if not isinstance(table, Mapping):
        return Defaults()
    good = [key for key in table.keys if key not in bad]
    return Defaults(
        {key: table.keys[key] for key in good}, {key: table.values[key] for key in good}
    )
