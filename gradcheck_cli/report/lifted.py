"""A lifted layer as a spec: its inputs at the point, and its formula."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.engines.layer.lifting import LiftedLayer
from gradcheck_cli.formula.folding import folded_statements


def spec_text(name: str, layer: LiftedLayer) -> str:
    """The YAML of a spec of the same function. Parameters are inputs, with underscores in their
    names; arrays of the point are constants."""
    program, inputs = layer.lifted.program, {}
    for leaf in layer.leaves:
        word = word_of(leaf.name)
        if word in program.inputs:
            inputs[word] = input_text(leaf.value, leaf.differentiable)
    used = {program.nodes[i].name for node in program.nodes for i in node.args}
    constants: Mapping[str, Array] = layer.lifted.constants
    inputs |= {n: input_text(array, False) for n, array in constants.items() if n in used}
    about = f"{layer.target}, lifted from its run in {layer.engine}"
    lines = [
        f"name: {json.dumps(name)}",
        f"description: {json.dumps(about)}",
        "inputs:",
        *(f"  {word}: {text}" for word, text in inputs.items()),
        "model: |",
        *(f"  {line}" for line in folded_statements(program).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def input_text(value: Array, differentiable: bool) -> str:
    """An input in YAML."""
    numbers = _numbers(value.tolist())
    if value.dtype.kind in "biu":
        return f"{{value: {numbers}, dtype: {'bool' if value.dtype.kind == 'b' else 'int64'}}}"
    return numbers if differentiable else f"{{value: {numbers}, requires_grad: false}}"


def _numbers(value: Any) -> str:
    """Numbers in YAML. Every float has a decimal point, so that it is not read as a whole
    number."""
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if np.isfinite(value):
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        return ".nan" if np.isnan(value) else ".inf" if value > 0 else "-.inf"
    return str(value)
