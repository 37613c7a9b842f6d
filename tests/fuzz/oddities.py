"""Layers that are right in an odd way, and layers with one mistake: `odd/` has a file a framework.

The docstring of each layer (in C++ the comment above it) says what must be found: "Right: ...", or
the codes of which one must be reported as an error, "GC101 GC105: ...". Further lines are keys of
its spec. An input is a layer at a random point. The layers of a batch come in random order and
share workers, so one that changes what the next one gets is found as well.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from gradcheck_cli.domain.report import SpecResult
from tests.fuzz.driver import Finding, drawn
from tests.fuzz.running import Runner

FOLDER = Path(__file__).parent / "odd"
FRAMEWORKS = {
    "torch": "torch_layers.py",
    "tensorflow": "tensorflow_layers.py",
    "jax": "jax_layers.py",
    "numpy": "numpy_layers.py",
    "eigen": "eigen_layers.hpp",
}
RIGHT = "Right"
CALL = ("args:", "kwargs:")
"""Keys of an implementation, not of the spec."""


@dataclass(frozen=True)
class Odd:
    """A layer: its framework, its name in the file, the expected codes, of which one must be
    found (empty: the layer is right), and further lines of its spec. `arguments` are those of
    its call."""

    framework: str
    name: str
    codes: tuple[str, ...]
    keys: tuple[str, ...]
    arguments: tuple[str, ...]

    def spec(self, rng: np.random.Generator) -> str:
        """The spec at a random point, unless the layer has its own."""
        target = json.dumps(f"{FOLDER / FRAMEWORKS[self.framework]}:{self.name}")
        call = "".join(f", {line}" for line in self.keys if line.startswith(CALL))
        keys = [line for line in self.keys if not line.startswith(CALL)]
        if not any(line.startswith("inputs:") for line in keys):
            keys.insert(0, "inputs: " + json.dumps({name: _point(rng) for name in self.arguments}))
        return "\n".join(
            [
                f"name: {self.framework} {self.name}",
                f"implementations: {{{self.framework}: {{target: {target}{call}}}}}",
                *keys,
                "",
            ]
        )


def _point(rng: np.random.Generator) -> list[float]:
    """Three numbers away from 0 and from each other, of either sign."""
    sizes = rng.permutation([0.3, 0.8, 1.3]) + rng.uniform(0.0, 0.3, 3)
    return [round(float(x), 3) for x in sizes * rng.choice([-1, 1], 3)]


@cache
def layers() -> tuple[Odd, ...]:
    """All layers of all frameworks."""
    return tuple(
        odd
        for framework, file in FRAMEWORKS.items()
        for odd in _read(framework, (FOLDER / file).read_text("utf-8"))
    )


def _read(framework: str, text: str) -> Iterator[Odd]:
    found = _of_cpp(text) if framework == "eigen" else _of_python(text)
    for name, words, arguments in found:
        head, _, keys = words.partition("\n")
        expected, colon, _ = head.partition(":")
        if colon:
            codes = () if expected == RIGHT else tuple(expected.split())
            yield Odd(
                framework, name, codes, tuple(line for line in keys.splitlines() if line), arguments
            )


def _of_python(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The functions and classes of a file, with their docstrings and their inputs."""
    classes: dict[str, ast.ClassDef] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = node
            yield node.name, ast.get_docstring(node) or "", _inputs(_called(node, classes))
        elif isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_docstring(node) or "", _inputs(node)


def _called(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ast.FunctionDef | None:
    """The method by which a layer's class is called, its own or its base's."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in ("forward", "call", "__call__"):
            return part
    bases = [classes[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in classes]
    return _called(bases[0], classes) if bases else None


def _inputs(function: ast.FunctionDef | None) -> tuple[str, ...]:
    if function is None:
        return ()
    given = function.args.args[: len(function.args.args) - len(function.args.defaults)]
    return tuple(argument.arg for argument in given if argument.arg != "self")


def _of_cpp(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The functions with a comment above their template."""
    above = re.compile(r"((?:^// .*\n)+)template <.*>\n((?:.+\n)+?)(?=  |})", re.M)
    for match in above.finditer(text):
        words = "\n".join(line[3:] for line in match[1].splitlines())
        name = re.search(r"(\w+)\(", match[2])
        assert name is not None, match[2]
        yield name[1], words, ("x",)


class Oddities:
    """The fuzzer of odd layers."""

    name = "oddities"

    def __init__(self, runner: Runner | None = None, frameworks: Sequence[str] = ()) -> None:
        self.counted: Counter[str] = Counter()
        self._frameworks = tuple(frameworks) or tuple(FRAMEWORKS)
        self._runner = runner or Runner(self._frameworks)
        self._layers = [odd for odd in layers() if odd.framework in self._frameworks]

    def __enter__(self) -> Oddities:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def input(self, seed: int, index: int) -> tuple[Odd, str]:
        """A layer and its spec. All layers come before any repeats."""
        round_of = index // len(self._layers)
        order = drawn(seed, self.name, (1 << 40) + round_of).permutation(len(self._layers))
        odd = self._layers[int(order[index % len(self._layers)])]
        return odd, odd.spec(drawn(seed, self.name, index))

    def check(self, seed: int, indices: Sequence[int]) -> Iterator[Finding]:
        inputs = [self.input(seed, index) for index in indices]
        results = self._runner.results([text for _, text in inputs])
        for index, (odd, text), result in zip(indices, inputs, results, strict=True):
            self.counted[f"{odd.framework}, {'wrong' if odd.codes else 'right'}"] += 1
            self.counted["checks"] += len(result.checks)
            if fault := fault_of(odd, result):
                yield Finding(index, f"{odd.framework} {odd.name}: {fault}", text)


def fault_of(odd: Odd, result: SpecResult) -> str:
    """The fault of the verdict, in a sentence; empty if it is right."""
    errors = {finding.code for finding in result.findings if finding.severity == "error"}
    told = "; ".join(f"{f.code} {f.message}" for f in result.findings)
    if not odd.codes:
        if errors:
            return f"it is right, and is accused: {told}"
        return "" if result.checks else f"nothing was checked: {told}"
    if not errors:
        return f"it is wrong, and passes: {told or 'nothing is said'}"
    return "" if errors & set(odd.codes) else f"another word is expected, of {odd.codes}: {told}"
